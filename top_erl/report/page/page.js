// Puts the page together, in the order in which it is read.
"use strict";

function showHead() {
  document.getElementById("title").textContent = DATA.title;
  document.getElementById("subtitle").textContent = DATA.subtitle;
  const badges = DATA.badges.map(({ text, kind }) => element("span", { class: "badge " + kind }, text));
  document.getElementById("badges").append(...badges);
  document.getElementById("footer").textContent = DATA.footer;
}

const SHOWN = 0.62; // of a picture's pixels: letters as large as the page's, and sharp on fine screens
const BROAD = 600; // pixels from which on a picture is moved sideways on a phone

function showFigures() {
  const section = document.getElementById("figures");
  for (const figure of DATA.figures) {
    const size = { width: Math.round(SHOWN * figure.width), height: Math.round(SHOWN * figure.height) };
    const image = !figure.image ? null : element("img", { src: figure.image, alt: figure.title, ...size });
    const picture = image && size.width > BROAD ? element("div", { class: "broad" }, image) : image;
    const links = figure.files.flatMap((file) => [" · ", element("a", { href: file.href }, file.text)]);
    section.querySelector(".figures").append(element("figure", {}, picture, element("figcaption", {}, figure.title, ...links)));
  }
  section.hidden = !DATA.figures.length;
}

function showFilms() {
  const section = document.getElementById("films");
  for (const film of DATA.films) {
    const view = film.moving
      ? element("video", { src: film.href, controls: true, muted: true, loop: true, preload: "none", playsinline: true })
      : element("img", { src: film.href, alt: film.title, loading: "lazy" });
    const link = element("a", { href: film.href }, film.title);
    section.querySelector(".films").append(element("figure", {}, film.large ? null : view, element("figcaption", {}, link, " · " + film.size)));
  }
  section.hidden = !DATA.films.length;
}

function showNotes(parent) {
  if (!DATA.notes.length) return;
  const list = element("ul", { class: "notes" }, ...DATA.notes.map((note) => element("li", {}, note)));
  parent.append(element("section", { id: "notes", "data-title": "Notes" }, element("h2", {}, "Notes"), list));
}

function showSections() {
  const bar = document.getElementById("sections");
  for (const section of document.querySelectorAll("main section")) {
    if (!section.hidden && section.dataset.title) bar.append(element("a", { href: "#" + section.id }, section.dataset.title));
  }
}

/** While runs go on, the page is written anew every few seconds; the view is kept. */
function followRuns() {
  if (!DATA.live) return;
  window.setTimeout(() => {
    remember();
    location.reload();
  }, DATA.live * 1000);
}

applyTheme();
document.getElementById("theme").addEventListener("click", () => { toggleTheme(); repaint(); });
SYSTEM_DARK.addEventListener("change", () => { applyTheme(); repaint(); });

function repaint() {
  if (!DATA.curves.length) return;
  paintMethods();
  drawCurves();
}

showHead();
showCurves();
DATA.tables.forEach((table) => showTable(table, document.getElementById("tables")));
showFigures();
showFilms();
showNotes(document.getElementById("details"));
DATA.details.forEach((table) => showTable(table, document.getElementById("details")));
showSections();
history.scrollRestoration = "manual";
if (!location.hash) window.scrollTo(0, VIEW.scroll);
window.addEventListener("pagehide", remember);
followRuns();
