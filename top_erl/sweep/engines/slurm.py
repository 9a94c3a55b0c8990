"""SLURM: an array script, one task per run, safe to submit again; nothing is started here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from top_erl.config.files import write_whole
from top_erl.sweep.definition import Cell
from top_erl.sweep.folder import SweepFolder

SCRIPT = "slurm.sh"

_TEMPLATE = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=1-{count}
#SBATCH --cpus-per-task={threads}
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={logs}/slurm-%a.log
# Made by top-erl. Submit it with `sbatch {script}`, as often as you like: finished runs
# end at once, begun ones go on from their last checkpoint. Options after `sbatch` (--partition, --time,
# --array=1-{count}%20) win over those above.
cd {here} || exit 1
export OMP_NUM_THREADS={threads} OPENBLAS_NUM_THREADS={threads} MKL_NUM_THREADS={threads}
cells=(
{cells}
)
cell=${{cells[$SLURM_ARRAY_TASK_ID - 1]}}
{python} -m top_erl.sweep {folder} "$cell" --threads {threads}{imports} &
child=$!
again=0
trap 'again=1; kill -TERM $child' USR1  # the time is nearly over: it saves itself, and the job is queued again
trap 'kill -TERM $child' TERM           # cancelled: it saves itself
wait $child
code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
if [ $again -eq 1 ] && [ $code -ge 128 ] && [ -n "$SLURM_JOB_ID" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
"""


def write_script(folder: SweepFolder, cells: Sequence[Cell], threads: int, modules: Sequence[str]) -> Path:
    """Write the script, with the list of runs that are not finished; returns its path."""
    script = folder.path / SCRIPT
    absolute = folder.path.absolute()
    text = _TEMPLATE.format(
        name=folder.sweep.name,
        count=len(cells),
        threads=threads,
        logs=shlex.quote(str(absolute / "logs")),
        script=shlex.quote(str(script)),
        here=shlex.quote(str(Path.cwd())),
        cells="\n".join(shlex.quote(cell.name) for cell in cells),  # a list beside it could change while jobs wait
        python=shlex.quote(sys.executable),
        folder=shlex.quote(str(absolute)),
        imports="".join(f" --import {shlex.quote(name)}" for name in modules),
    )
    write_whole(script, text)
    script.chmod(0o755)
    return script
