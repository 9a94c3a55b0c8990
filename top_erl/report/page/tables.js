// Tables that sort. A cell is null, a number, a text, or {v: what it sorts by, t: what it says, s: small print, best: true}.
"use strict";

function cellValue(cell) {
  return cell !== null && typeof cell === "object" ? cell.v : cell;
}

function cellText(cell) {
  if (cell === null || cell === undefined) return "–";
  if (typeof cell === "object") return cell.t;
  return typeof cell === "number" ? String(cell) : cell;
}

/** Order of two cells: numbers by size, texts by their words (with numbers inside by size); what is missing comes last. */
function compareCells(a, b, direction) {
  const [first, second] = [cellValue(a), cellValue(b)];
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(first) || missing(second)) return missing(first) - missing(second);
  if (typeof first === "number" && typeof second === "number") return direction * (first - second);
  return direction * String(first).localeCompare(String(second), "en", { numeric: true });
}

function isNumeric(table, column) {
  const cells = table.rows.map((row) => row[column]).filter((cell) => cell !== null && cell !== undefined);
  return cells.length > 0 && cells.every((cell) => cellValue(cell) === null || typeof cellValue(cell) === "number");
}

function tableBody(table, order, needle) {
  const numeric = table.headers.map((_, column) => isNumeric(table, column));
  const rows = table.rows.filter((row) => !needle || row.some((cell) => cellText(cell).toLowerCase().includes(needle)));
  if (order) rows.sort((a, b) => compareCells(a[order.column], b[order.column], order.direction));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((cell, column) => {
      const long = !numeric[column] && cellText(cell).length > 60;
      const kinds = [numeric[column] && "number", long && "text", cell && cell.best && "best"].filter(Boolean).join(" ");
      const small = cell && cell.s ? element("small", {}, " " + cell.s) : null;
      line.append(element("td", { class: kinds || null }, cellText(cell), small));
    });
    body.append(line);
  }
  return body;
}

/** One table in a section of its own (or under a heading in a section that exists). */
function showTable(table, parent) {
  const grid = element("table", { id: "table-" + table.id, "aria-label": table.title });
  const head = element("tr");
  const draw = () => {
    const order = VIEW.sorted[table.id];
    [...head.children].forEach((cell, column) => {
      const here = order && order.column === column;
      cell.setAttribute("aria-sort", !here ? "none" : order.direction > 0 ? "ascending" : "descending");
    });
    const needle = (VIEW.filters[table.id] || "").toLowerCase();
    const body = tableBody(table, order, needle);
    if (grid.tBodies.length) grid.tBodies[0].replaceWith(body); else grid.append(body);
  };
  table.headers.forEach((text, column) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      const old = VIEW.sorted[table.id];
      const first = isNumeric(table, column) ? -1 : 1; // of numbers the largest are looked for, of names the first
      const direction = old && old.column === column ? -old.direction : first;
      VIEW.sorted[table.id] = { column, direction };
      draw();
      remember();
    });
    head.append(element("th", { scope: "col", class: isNumeric(table, column) ? "number" : null }, button));
  });
  grid.append(element("thead", {}, head));
  draw();
  const section = element("section", { id: table.id, "data-title": table.short ?? table.title });
  section.append(element("div", { class: "table-head" }, element("h2", {}, table.title), searchBox(table, draw)));
  if (table.note) section.append(element("p", { class: "muted note" }, table.note));
  section.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title }, grid));
  parent.append(section);
}

function searchBox(table, draw) {
  if (table.rows.length < 12) return "";
  const box = element("input", { type: "search", placeholder: "filter", "aria-label": "Filter " + table.title });
  box.value = VIEW.filters[table.id] || "";
  box.addEventListener("input", () => {
    VIEW.filters[table.id] = box.value;
    draw();
    remember();
  });
  return box;
}
