// The interactive curves. Everything is computed beforehand; here it is only chosen and drawn.
"use strict";

const AXES = {
  env_steps: { title: "environment steps", hover: ",d" },
  episodes: { title: "episodes", hover: ",d" },
  minutes: { title: "minutes of computing", hover: ",.1f" },
};
const STATISTICS = { iqm: "interquartile mean", mean: "mean" };
const MANY_RUNS = 400; // more thin lines than this make the page slow
const NARROW = window.matchMedia("(max-width: 40rem)");
const TOUCH = window.matchMedia("(pointer: coarse)");

/** Names as they are: the library reads some HTML in its texts. */
function plain(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function mix(hex, other, share) {
  const parts = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  const [a, b] = [parts(hex), parts(other)];
  return "#" + a.map((value, at) => Math.round(value * (1 - share) + b[at] * share).toString(16).padStart(2, "0")).join("");
}

function labelColor(label) {
  return isDark() ? mix(label.color, "#ffffff", 0.28) : label.color;
}

function translucent(hex, alpha) {
  return hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

function chosen() {
  const task = DATA.groups.findIndex((entry) => entry.name === VIEW.task);
  const column = DATA.columns.findIndex((entry) => entry.name === VIEW.column);
  return { task, column, group: DATA.groups[task], measure: DATA.columns[column] };
}

function shownCurves() {
  const { task, column } = chosen();
  return DATA.curves.filter((curve) => curve.t === task && curve.c === column && VIEW.axis in curve.x);
}

function isHidden(index) {
  return VIEW.hidden.includes(DATA.labels[index].name);
}

/** Whether hovering names one curve: with many lines, or on a small screen, a box with all of them covers too much. */
function closest() {
  return VIEW.seeds || NARROW.matches;
}

/** A curve in two parts: of all its runs, and thin and dotted where only some of them go on. */
function linesOf(curve, measure) {
  const line = lineOf(curve, measure);
  const all = Math.max(...curve.n);
  const whole = curve.n.map((count) => count === all);
  if (whole.every(Boolean)) return [line];
  const rest = whole.map((here, at) => !here || whole[at + 1] === false); // begins where the other ends
  const part = (places) => line.y.map((value, at) => (places[at] ? value : null));
  const hover = (places) => line.text.map((text, at) => (places[at] ? text : ""));
  const thin = { ...line.line, width: 1.4, dash: "dot" };
  const tail = whole.map((here) => !here);
  return [{ ...line, y: part(whole) }, { ...line, y: part(rest), text: hover(tail), line: thin, mode: "lines" }];
}

function lineOf(curve, measure) {
  const label = DATA.labels[curve.l];
  const [value, low, high] = curve[VIEW.statistic];
  const show = (number) => (measure.percent ? (100 * number).toFixed(1) + "%" : Number(number.toPrecision(4)).toLocaleString("en"));
  const about = value.map((number, at) => {
    const interval = low[at] === null || low[at] === undefined ? "" : `  [${show(low[at])}, ${show(high[at])}]`;
    return number === null ? "" : `<b>${show(number)}</b>${interval}  ${curve.n[at] === 1 ? "1 run" : curve.n[at] + " runs"}`;
  });
  return {
    x: curve.x[VIEW.axis], y: value, text: about,
    name: plain(label.name), type: "scatter", mode: value.length < 40 ? "lines+markers" : "lines",
    line: { color: labelColor(label), width: 2.4, dash: label.dash }, marker: { size: 4.5 },
    hovertemplate: "%{text}" + (closest() ? `<extra>${plain(label.name)}</extra>` : ""),
  };
}

/** The band as one outline, there and back; nothing where there is no interval. */
function bandOf(curve) {
  const [, low, high] = curve[VIEW.statistic];
  const places = [...low.keys()].filter((at) => low[at] !== null && high[at] !== null);
  if (!places.length) return [];
  const back = [...places].reverse();
  const x = [...places, ...back].map((at) => curve.x[VIEW.axis][at]);
  const y = [...places.map((at) => low[at]), ...back.map((at) => high[at])];
  const fillcolor = translucent(labelColor(DATA.labels[curve.l]), isDark() ? 0.2 : 0.16);
  return [{ x, y, type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", fillcolor, hoverinfo: "skip" }];
}

function shownSeeds() {
  const { task, group, column } = chosen();
  const tasks = group.members.length ? group.members : [task];
  return DATA.seeds.filter((seed) => tasks.includes(seed.t) && column in seed.y && VIEW.axis in seed.x);
}

function seedOf(seed, { group, column, measure }) {
  const label = DATA.labels[seed.l];
  const where = group.members.length ? plain(DATA.groups[seed.t].name) + ", " : "";
  const number = measure.percent ? ".1%" : ",.4~g";
  return {
    x: seed.x[VIEW.axis], y: seed.y[column], type: "scatter", mode: "lines", opacity: 0.5,
    line: { color: labelColor(label), width: 1, dash: label.dash },
    hovertemplate: `%{y:${number}}  ${where}seed ${seed.s}<extra>${plain(label.name)}</extra>`,
  };
}

function traces() {
  const choice = chosen();
  const curves = shownCurves().filter((curve) => !isHidden(curve.l));
  const seeds = VIEW.seeds ? shownSeeds().filter((seed) => !isHidden(seed.l)) : [];
  return [
    ...(VIEW.band ? curves.flatMap(bandOf) : []),
    ...(seeds.length <= MANY_RUNS ? seeds.map((seed) => seedOf(seed, choice)) : []),
    ...curves.flatMap((curve) => linesOf(curve, choice.measure)),
  ];
}

function layout() {
  const { measure } = chosen();
  const axis = { gridcolor: cssColor("--grid"), zerolinecolor: cssColor("--line"), linecolor: cssColor("--line"), automargin: true };
  const [text, surface] = [cssColor("--text"), cssColor("--surface")];
  const short = NARROW.matches;
  const zoom = VIEW.zoom || {};
  const free = measure.percent ? { range: [-0.02, 1.03] } : { autorange: true };
  return {
    showlegend: false, hovermode: closest() ? "closest" : "x unified", dragmode: TOUCH.matches ? false : "zoom",
    margin: { l: short ? 44 : 60, r: short ? 10 : 18, t: 32, b: 48 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: cssColor("--muted"), activecolor: cssColor("--accent") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: short ? 12 : 13, color: text },
    hoverlabel: { bgcolor: surface, bordercolor: cssColor("--line"), font: { color: text, size: short ? 12 : 13 }, namelength: -1, align: "left" },
    xaxis: { ...axis, title: { text: AXES[VIEW.axis].title }, hoverformat: AXES[VIEW.axis].hover,
      unifiedhovertitle: { text: `%{x:${AXES[VIEW.axis].hover}} ${AXES[VIEW.axis].title}` }, rangemode: "tozero", nticks: short ? 5 : 0,
      exponentformat: "SI", ...(zoom.x ? { range: zoom.x } : { autorange: true }) },
    yaxis: { ...axis, title: { text: short ? "" : plain(measure.title) }, tickformat: measure.percent ? ".0%" : "", nticks: 7,
      ...(zoom.y ? { range: zoom.y } : free) },
  };
}

const CONFIG = {
  displaylogo: false, responsive: true, scrollZoom: false, showTips: false,
  // by name: the library's own choice has a button that uploads the chart
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  toImageButtonOptions: { format: "png", scale: 2, filename: "curves" },
};

function drawCurves() {
  const plot = document.getElementById("plot");
  const drawn = traces();
  const { group, measure } = chosen();
  const nothing = !shownCurves().length;
  plot.classList.toggle("empty", nothing);
  if (nothing) {
    Plotly.purge(plot);
    plot.textContent = group.members.length && !measure.percent
      ? "This measure has another scale in every task: choose one task."
      : "No run has measured this here.";
  } else {
    if (!plot.data) plot.textContent = "";
    Plotly.react(plot, drawn, layout(), { ...CONFIG, displayModeBar: TOUCH.matches ? true : "hover" }).then(() => {
      if (!plot.listens) plot.on("plotly_relayout", keepZoom);
      plot.listens = true;
    });
  }
  caption(group, measure);
}

/** Remember what the reader zoomed into. */
function keepZoom(event) {
  if (!Object.keys(event).some((key) => /^[xy]axis\./.test(key))) return;
  const full = document.getElementById("plot")._fullLayout;
  const range = (axis) => (full[axis].autorange ? null : [...full[axis].range]);
  const reset = event["xaxis.autorange"] && event["yaxis.autorange"];
  VIEW.zoom = reset ? null : { x: range("xaxis"), y: range("yaxis") };
  remember();
  if (reset) drawCurves(); // back to the whole scale of success, not only to where curves are
}

function caption(group, measure) {
  const curves = shownCurves();
  const most = Math.max(0, ...curves.flatMap((curve) => curve.n));
  const title = measure.title[0].toUpperCase() + measure.title.slice(1);
  const parts = [`${title}: ${STATISTICS[VIEW.statistic]} over ${most === 1 ? "1 run" : "up to " + most + " runs"}`
    + (group.members.length ? ` of ${group.members.length} tasks` : "") + (VIEW.band ? ", with the 95 % interval of a bootstrap over seeds." : ".")];
  if (curves.some((curve) => new Set(curve.n).size > 1)) parts.push("Dotted: only some of the runs go on.");
  if (VIEW.seeds && shownSeeds().length > MANY_RUNS) parts.push("There are too many single runs to draw at once: choose a task.");
  if (VIEW.seeds && !DATA.seeds.length) parts.push("Single runs are left out of this page to keep it small.");
  document.getElementById("caption").textContent = parts.join(" ");
}

// ------------------------------------------------------------------ controls

function fill(id, entries, value) {
  const select = document.getElementById(id);
  select.replaceChildren(...entries.map(([name, text]) => element("option", { value: name }, text)));
  const names = entries.map(([name]) => name);
  select.value = VIEW[id] = names.includes(value) ? value : names[0];
  select.closest("label").hidden = entries.length < 2 && id !== "column" && id !== "task";
  select.addEventListener("change", () => {
    VIEW[id] = select.value;
    VIEW.zoom = null; // another task, measure or axis has another scale
    changed();
  });
}

function changed() {
  drawCurves();
  remember();
}

function methodButton(label) {
  const button = element("button", { type: "button", class: "method", "data-label": label.name });
  const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  swatch.setAttribute("width", "22");
  swatch.setAttribute("height", "8");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ x1: 0, y1: 4, x2: 22, y2: 4, "stroke-width": 3 })) line.setAttribute(name, value);
  if (label.dash !== "solid") line.setAttribute("stroke-dasharray", { dot: "3 3", dash: "7 3", dashdot: "7 3 2 3" }[label.dash]);
  swatch.append(line);
  button.append(swatch, label.name);
  button.addEventListener("click", () => {
    VIEW.hidden = VIEW.hidden.includes(label.name) ? VIEW.hidden.filter((name) => name !== label.name) : [...VIEW.hidden, label.name];
    button.setAttribute("aria-pressed", String(!VIEW.hidden.includes(label.name)));
    changed();
  });
  button.addEventListener("dblclick", () => only(label.name));
  button.setAttribute("aria-pressed", String(!VIEW.hidden.includes(label.name)));
  button.title = "Click to show or hide, double-click for this one alone (again: all)";
  return button;
}

function only(name) {
  const others = DATA.labels.map((label) => label.name).filter((other) => other !== name);
  const alone = others.every((other) => VIEW.hidden.includes(other));
  VIEW.hidden = alone ? [] : others;
  for (const button of document.querySelectorAll(".method")) {
    button.setAttribute("aria-pressed", String(!VIEW.hidden.includes(button.dataset.label)));
  }
  changed();
}

function paintMethods() {
  DATA.labels.forEach((label, at) => document.querySelectorAll(".method line")[at].setAttribute("stroke", labelColor(label)));
}

function showCurves() {
  if (!DATA.curves.length) {
    document.getElementById("curves").hidden = true;
    return;
  }
  fill("task", DATA.groups.map((group) => [group.name, group.name]), VIEW.task);
  fill("column", DATA.columns.map((column) => [column.name, column.title]), VIEW.column);
  const axes = Object.keys(AXES).filter((axis) => DATA.curves.some((curve) => axis in curve.x));
  fill("axis", axes.map((axis) => [axis, AXES[axis].title]), VIEW.axis);
  fill("statistic", Object.entries(STATISTICS), VIEW.statistic);
  for (const id of ["band", "seeds"]) {
    const box = document.getElementById(id);
    box.checked = VIEW[id];
    box.addEventListener("change", () => { VIEW[id] = box.checked; changed(); });
  }
  document.getElementById("reset").addEventListener("click", () => { VIEW.zoom = null; changed(); });
  document.getElementById("methods").append(...DATA.labels.map(methodButton));
  paintMethods();
  drawCurves();
  NARROW.addEventListener("change", drawCurves);
}
