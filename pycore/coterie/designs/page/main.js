"use strict";
// The page: what the scenario is, what it cost under each design, a lane for each, and its ops.

const DATA = JSON.parse(document.getElementById("data").textContent);

function costsTable() {
  const designs = DATA.lanes.map((lane, index) => ({ label: lane.design, kind: "number",
    value: (row) => row.values[index], node: (row) => row.values[index] === null
      ? "-" : formatNumber(row.values[index]) }));
  return { caption: "What the scenario cost under each design", rows: DATA.costs, columns: [
    { label: "Cost", kind: "text", header: true, value: (row) => row.name },
    { label: "What is summed", kind: "text", value: (row) => row.meaning }, ...designs] };
}

function opsTable() {
  return { caption: "What happens in the scenario", rows: DATA.ops, columns: [
    { label: "At (ms)", kind: "number", header: true, value: (row) => row[0] },
    { label: "What", kind: "text", value: (row) => row[1] }] };
}

function leftOut() {
  const { partitions, ops } = DATA.left_out, notes = [];
  if (partitions) notes.push(plural(partitions, "partition") + " that had fewer moments with two owners, "
    + "or with none, than those shown");
  if (ops) notes.push(plural(ops, "later op") + " of the scenario");
  return notes.length ? el("p", { class: "banner", id: "left-out" },
    "Left out of charts and tables, not of costs: " + notes.join("; ") + ".") : null;
}

function show() {
  const lanes = DATA.lanes.map(laneFigure);
  MAIN.replaceChildren(...[
    el("h2", { tabindex: "-1" }, "What it cost"), el("div", { class: "costs" }, new DataTable(costsTable()).element),
    el("p", { class: "quiet" }, "- is a cost that does not exist in a design."),
    el("h2", {}, "Who owned which partition when"), leftOut(), laneLegend("consumer", "a rebalance began"), ...lanes,
    el("h2", {}, "What happens"), new DataTable(opsTable()).element,
  ].filter(Boolean));
  for (const lane of lanes) lane.start("lanes");
  echarts.connect("lanes");  // to zoom in one lane is to zoom in all
  document.documentElement.dataset.shown = "";
}

show();
