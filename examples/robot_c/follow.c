/* Follows a reference in a control loop of any rate, in plain C.
 *
 *   top-erl export RUN --csv contexts.csv -o references.csv
 *   cc -O2 -std=c99 follow.c -o follow -lm
 *   ./follow references.csv 0 1000          # the reference of context 0, at 1000 Hz
 *
 * The loop prints what it would hand to the robot: time, positions, velocities. Put your driver's calls in `command`.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16, MOST_DOF = 64 };

typedef struct {
    int dof, rows;  /* degrees of freedom; rows, the first at time 0 */
    double dt;      /* seconds between two rows */
    double *states; /* [rows][2 * dof]: positions, then velocities */
} Reference;

static void fail(const char *sentence) {
    fprintf(stderr, "follow: %s\n", sentence);
    exit(2);
}

static int count_columns(const char *line) {
    int columns = 1;
    for (; *line; line++) columns += *line == ',';
    return columns;
}

/* Reads the rows of one context: context, time, positions, velocities. */
static Reference read_reference(const char *path, int context) {
    static char line[LINE];
    Reference reference = {0, 0, 0.0, NULL};
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, LINE, file)) fail("the file of references cannot be read");
    reference.dof = (count_columns(line) - 2) / 2;
    if (reference.dof < 1 || reference.dof > MOST_DOF) fail("this is not a file of references");
    const int width = 2 * reference.dof;
    while (fgets(line, LINE, file)) {
        char *at = line;
        if (strtol(at, &at, 10) != context) continue;
        const size_t size = (size_t)(reference.rows + 1) * width * sizeof(double);
        if (!(reference.states = realloc(reference.states, size))) fail("out of memory");
        if (*at != ',') fail("a row has too few columns");
        const double time = strtod(at + 1, &at);
        if (reference.rows == 1) reference.dt = time;
        for (int i = 0; i < width; i++) {
            if (*at != ',') fail("a row has too few columns");
            reference.states[reference.rows * width + i] = strtod(at + 1, &at);
        }
        reference.rows++;
    }
    fclose(file);
    if (reference.rows < 2 || !(reference.dt > 0)) fail("there is no such context in the file");
    return reference;
}

/* Desired state at any time: the cubic through both neighbours, its derivative; after the end, the last position. */
static void reference_at(const Reference *reference, double time, double *position, double *velocity) {
    const int dof = reference->dof, last = reference->rows - 1;
    const double steps = time / reference->dt;
    const int after = steps > 1 ? (int)ceil(steps) : 1;
    for (int i = 0; i < dof; i++) {
        if (steps > last) {
            position[i] = reference->states[last * 2 * dof + i];
            velocity[i] = 0.0;
            continue;
        }
        const double *b = reference->states + after * 2 * dof, *a = b - 2 * dof, dt = reference->dt;
        const double u = steps - (after - 1), way = b[i] - a[i], v0 = dt * a[dof + i], v1 = dt * b[dof + i];
        const double c2 = 3 * way - 2 * v0 - v1, c3 = v0 + v1 - 2 * way;
        position[i] = a[i] + u * (v0 + u * (c2 + u * c3));
        velocity[i] = (v0 + u * (2 * c2 + 3 * u * c3)) / dt;
    }
}

/* What a robot would be told; here it is printed. */
static void command(double time, const double *position, const double *velocity, int dof) {
    printf("%.9g", time);
    for (int i = 0; i < dof; i++) printf(",%.17g", position[i]);
    for (int i = 0; i < dof; i++) printf(",%.17g", velocity[i]);
    printf("\n");
}

int main(int count, char **words) {
    if (count != 4) fail("usage: follow references.csv CONTEXT HERTZ");
    const double rate = atof(words[3]);
    if (!(rate > 0)) fail("the rate must be above 0");
    Reference reference = read_reference(words[1], atoi(words[2]));
    double position[MOST_DOF], velocity[MOST_DOF];
    const long ticks = lround((reference.rows - 1) * reference.dt * rate);
    for (long tick = 0; tick <= ticks; tick++) { /* on a robot: wait for the next period here */
        reference_at(&reference, tick / rate, position, velocity);
        command(tick / rate, position, velocity, reference.dof);
    }
    free(reference.states);
    return 0;
}
