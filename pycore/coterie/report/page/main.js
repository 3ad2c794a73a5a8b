"use strict";
// What the address names is shown: "#group=ID" a group, anything else the overview.

function wanted() {
  const match = /^#group=(.*)$/s.exec(location.hash);
  if (!match) return GROUPS.length === 1 ? GROUPS[0][COLUMN.group] : null;
  try { return decodeURIComponent(match[1]); } catch { return match[1]; }
}

let turn = 0;

async function show(first) {
  const name = wanted(), mine = ++turn;
  let detail = null, failed = null;
  if (name !== null && NUMBER_OF.has(name)) {
    try { detail = await detailOf(NUMBER_OF.get(name)); } catch (error) { failed = error; }
    if (mine !== turn) return;
  }
  forgetCharts();
  window.scrollTo(0, 0);
  document.title = name === null ? DATA.title : visible(name) + " – " + DATA.title;
  if (detail) group(MAIN, detail);
  else if (name === null) overview(MAIN);
  else MAIN.replaceChildren(el("p", { role: "alert" }, failed
    ? "This browser cannot unpack the group (" + failed.name + "); a newer one can."
    : "This report has no group " + visible(name) + "."), el("p", {}, el("a", { href: "#" }, "← All groups")));
  const heading = MAIN.querySelector("h2");
  if (!first && heading) heading.focus({ preventScroll: true });
  document.documentElement.dataset.shown = name === null ? "" : name;
}

function freshness(until, now) {  // a file may be read long after it was written
  return until === null ? "" : "; newest record " + formatTime(until) + " UTC"
    + (now < until ? "" : ", " + formatDuration(now - until) + " before this page was opened");
}

document.querySelector("header .quiet").append(freshness(DATA.log.until_ms, Date.now()));
window.addEventListener("hashchange", () => show(false));
show(true);
