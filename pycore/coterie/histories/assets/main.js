"use strict";
// The page of a history: what was found, who owned which partition when, and the timeline.

const DATA = JSON.parse(document.getElementById("data").textContent);

function foundTable() {
  return { caption: "What was found", rows: DATA.found, columns: [
    { label: "Kind", kind: "text", header: true, value: (row) => row[0] },
    { label: "What", kind: "text", value: (row) => row[1] }] };
}

function timelineTable() {
  return { caption: "What happened", rows: DATA.timeline, columns: [
    { label: "At (ms)", kind: "number", header: true, value: (row) => row[0] },
    { label: "Clock", kind: "text", value: (row) => row[1] },
    { label: "Member", kind: "text", value: (row) => row[2] },
    { label: "What", kind: "text", value: (row) => row[3] }] };
}

function show() {
  const lanes = DATA.lanes.map(laneFigure), more = DATA.left_out.partitions;
  MAIN.replaceChildren(...[
    el("h2", { tabindex: "-1" }, "Who owned which partition when"), laneLegend("member", "members joined"),
    more ? el("p", { class: "banner" }, "Left out of the chart: " + plural(more, "partition") + ".") : null,
    ...lanes,
    el("h2", {}, "What was found"), DATA.found.length
      ? new DataTable(foundTable()).element : el("p", {}, "Nothing."),
    el("h2", {}, "What happened"), new DataTable(timelineTable()).element,
  ].filter(Boolean));
  for (const lane of lanes) lane.start("lanes");
  document.documentElement.dataset.shown = "";
}

show();
