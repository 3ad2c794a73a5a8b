"use strict";
// The page of a rehearsal: the results, the moments that are worse, and a lane for each play.

const DATA = JSON.parse(document.getElementById("data").textContent);

function rangeColumn(label, name) {
  const format = name.endsWith("_ms") ? formatDuration : formatNumber;
  return { label, kind: "number", value: (row) => row[name + "_most"], node: (row) => {
    const [least, most] = [format(row[name + "_least"]), format(row[name + "_most"])];
    return least === most ? most : least + " to " + most;
  } };
}

function errorsText(refused) {
  return refused.map(({ error, count }) => count + " " + error).join(", ");
}

function resultsTable() {
  return { caption: "What came out of each play", rows: DATA.results, columns: [
    { label: "Variant", kind: "text", header: true, value: (row) => row.variant },
    { label: "Kafka", kind: "text", value: (row) => row.kafka },
    { label: "Protocol", kind: "text", value: (row) => row.protocol },
    rangeColumn("Rebalances", "rebalances"),
    rangeColumn("Partitions without an owner, summed", "unowned_ms"),
    rangeColumn("The longest of one", "longest_unowned_ms"),
    rangeColumn("The longest rebalance", "settling_ms"),
    rangeColumn("Partitions lost without a commit", "uncommitted"),
    { label: "Records read again, at most", kind: "number", value: (row) => row.read_again_most },
    { label: "Ended by an error", kind: "text", value: (row) => errorsText(row.refused) },
    rangeColumn("Requests", "requests"), rangeColumn("Bytes", "record_bytes"),
    { label: "Worse moments", kind: "number", value: (row) => row.worse_moments }] };
}

function moreColumn(label, name) {
  const more = name.replace(/_ms$/, "_more_ms");
  return { label, kind: "number", value: (row) => row[more], node: (row) => formatDuration(row[name])
    + " (" + (row[more] < 0 ? "" : "+") + formatDuration(row[more]) + ")" };
}

function momentsTable() {
  return { caption: "The moments that are worse", rows: DATA.moments, columns: [
    { label: "Variant", kind: "text", header: true, value: (row) => row.variant },
    { label: "Time", kind: "time", value: (row) => row.timestamp },
    { label: "In charts", kind: "text", value: (row) => onClock(row.at_ms) },
    { label: "What began it", kind: "text", value: (row) => row.cause },
    moreColumn("Lasted", "lasted_ms"),
    { label: "Rebalances", kind: "number", value: (row) => row.rebalances },
    { label: "Partitions", kind: "number", value: (row) => row.partitions },
    moreColumn("Without an owner, summed", "unowned_ms"),
    moreColumn("The longest of one", "longest_unowned_ms"),
    { label: "Ended by an error", kind: "text", value: (row) => errorsText(row.refused) }] };
}

function opsTable() {
  return { caption: "What the log shows", rows: DATA.ops, columns: [
    { label: "Time", kind: "time", header: true, value: (row) => DATA.origin_ms + row[0] },
    { label: "In charts", kind: "text", value: (row) => onClock(row[0]) },
    { label: "What", kind: "text", value: (row) => row[1] }] };
}

function fitText() {
  const fit = DATA.results[0];
  return "The log has " + plural(fit.records_in_log, "record") + " of the group; the play as it was has "
    + formatNumber(fit.same_members) + " of these with the same members, " + formatNumber(fit.same_owners)
    + " with the same owners." + fit.unknown.map(({ what, count }) =>
      " The log does not say: " + visible(what) + " (" + formatNumber(count) + ").").join("");
}

function leftOut() {
  const { partitions, ops, moments } = DATA.left_out, notes = [];
  if (partitions) notes.push(plural(partitions, "partition") + " that had an owner for more of the time than those shown");
  if (ops) notes.push(plural(ops, "later op"));
  if (moments) notes.push(plural(moments, "moment") + " that " + (moments === 1 ? "is" : "are") + " less bad");
  return notes.length ? el("p", { class: "banner", id: "left-out" },
    "Left out of charts and tables, not of the results: " + notes.join("; ") + ".") : null;
}

function show() {
  const lanes = DATA.lanes.map(laneFigure);
  MAIN.replaceChildren(...[
    el("h2", { tabindex: "-1" }, "What came out"), new DataTable(resultsTable()).element,
    el("p", { class: "quiet" }, fitText()), leftOut(),
    el("h2", {}, "Worse than as it was"), DATA.moments.length
      ? new DataTable(momentsTable()).element : el("p", {}, "No moment."),
    el("p", { class: "quiet" }, "In the worst play of each variant; in brackets how much more than in any play "
      + "as it was."),
    el("h2", {}, "Who owned which partition when"), laneLegend("consumer", "a rebalance began"), ...lanes,
    el("h2", {}, "What happened"), new DataTable(opsTable()).element,
  ].filter(Boolean));
  for (const lane of lanes) lane.start("lanes");
  echarts.connect("lanes");  // to zoom in one lane is to zoom in all
  document.documentElement.dataset.shown = "";
}

show();
