// What the reader has chosen, and what outlives a reload of the page.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const KEY = "top-erl report " + location.pathname;

const VIEW = Object.assign(
  { task: "", column: "", axis: "", statistic: "", band: true, seeds: false, hidden: [], zoom: null, sorted: {}, filters: {}, scroll: 0 },
  recall(sessionStorageOrNull(), KEY),
);

function sessionStorageOrNull() {
  try { return window.sessionStorage; } catch { return null; } // a browser may forbid it for files
}

function localStorageOrNull() {
  try { return window.localStorage; } catch { return null; }
}

function recall(storage, key) {
  try { return JSON.parse(storage.getItem(key)) || {}; } catch { return {}; }
}

function remember() {
  VIEW.scroll = window.scrollY;
  try { sessionStorageOrNull().setItem(KEY, JSON.stringify(VIEW)); } catch { /* the view is only kept where the browser lets us */ }
}

/** An element with attributes and children; text is always text, never HTML. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// ------------------------------------------------------------------ light and dark

const SYSTEM_DARK = window.matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
  return recall(localStorageOrNull(), "top-erl theme").name || null;
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function applyTheme() {
  const name = chosenTheme() || (SYSTEM_DARK.matches ? "dark" : "light");
  document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", name === "dark" ? "Change to light colours" : "Change to dark colours");
}

function toggleTheme() {
  const name = isDark() ? "light" : "dark";
  const follows = name === (SYSTEM_DARK.matches ? "dark" : "light"); // back to what the system says: follow it again
  try { localStorageOrNull().setItem("top-erl theme", JSON.stringify(follows ? {} : { name })); } catch { /* as above */ }
  document.documentElement.dataset.theme = name;
  applyTheme();
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
