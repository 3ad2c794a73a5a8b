"use strict";
// What is around a page's own part: where that goes, the theme, the link that skips to it.

const MAIN = document.getElementById("main");
const THEME = document.getElementById("theme");
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function remembered() {  // a page from a file may have no storage
  try { return localStorage.getItem("coterie-theme"); } catch { return null; }
}

function setTheme(name, keep) {
  document.documentElement.dataset.theme = name;
  THEME.setAttribute("aria-pressed", String(name === "dark"));
  if (keep) { try { localStorage.setItem("coterie-theme", name); } catch { /* as before, then */ } }
  redrawCharts();
}

THEME.addEventListener("click", () =>
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
dark.addEventListener("change", () => { if (!remembered()) setTheme(dark.matches ? "dark" : "light"); });
setTheme(remembered() || (dark.matches ? "dark" : "light"));

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  MAIN.focus();
});
