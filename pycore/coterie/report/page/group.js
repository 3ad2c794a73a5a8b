"use strict";
// One group: what it is, its charts, and a table for each question that was asked.

function headFacts(head) {
  const alive = head.state !== "Gone";
  return facts([["State", stateOf(GROUPS[NUMBER_OF.get(head.group)])],
    ["Since (UTC)", head.since ? formatTime(head.since) : null],
    ["Type", alive ? [head.type, head.protocol_type].filter((one, index, all) =>
      one && all.indexOf(one) === index).map(visible).join(", ") : null],
    ["Protocol", head.protocol ? visible(head.protocol) : null],
    [head.type === "classic" ? "Generation" : "Epoch", alive ? formatNumber(head.generation) : null],
    ["Members", alive ? formatNumber(head.members) : null],
    ["Without a partition", head.empty_members ? formatNumber(head.empty_members) : null],
    ["Leader", head.leader ? visible(head.leader) : null],
    ["Partitions", formatNumber(head.partitions)], ["Commits", head.requests === null ? null : formatNumber(head.requests)],
    ["Offsets committed", formatNumber(head.commits)],
    ["Rebalances", head.rebalances === undefined ? null : formatNumber(head.rebalances)],
    ["Last commit (UTC)", formatTime(head.last_commit)],
    ["Kept in", head.offsets_partition === null ? null : "__consumer_offsets-" + head.offsets_partition]]);
}

function offsetsTable({ rows, count, present }) {
  const column = (label, kind, place) => ({ label, kind, value: (row) => row[place] });
  const left = count - rows.length;
  const table = new DataTable({ caption: "Offsets at the end of the log", rows, columns: [
    { ...column("Topic", "text", 0), header: true }, column("Partition", "number", 1),
    column("Offset", "number", 2), column("Committed (UTC)", "time", 4),
    column("Commits", "number", 5), column("Metadata", "text", 3)] });
  return [el("h3", {}, "Offsets at the end of the log"),
    el("p", { class: "quiet" }, plural(present, "partition") + " with an offset, "
      + plural(count - present, "partition") + " whose offset is gone."
      + (left ? " Left out: " + plural(left, "partition") + " by name." : "")), table.element];
}

function sectionTable(section, held, since) {
  const left = held.count - held.rows.length;
  const columns = section.columns.map(({ label, kind }, place) => ({ place, label, kind }));
  const known = columns.filter(({ place }) => place < 2 || held.rows.some((row) => row[place] !== null));
  const shown = known.map(({ label, kind, place }) =>
    ({ label: label + (kind === "time" ? " (UTC)" : ""), kind, value: (row) => row[place] }));
  return [el("h3", {}, section.title),
    el("p", { class: "quiet" }, section.description + (left ? " Left out: " + plural(left, section.left_out) + "." : "")),
    held.count ? new DataTable({ caption: section.title, columns: shown, rows: held.rows, size: 25 }).element
      : el("p", {}, section.nothing + (since === null ? "" : " That holds since " + formatTime(since)
        + " UTC: the log was compacted before."))];
}

function group(main, detail) {
  const { head } = detail, since = head.trusted_from_ms;
  const compacted = since === null ? [] : [[head.offsets_partition, since]];
  const extent = spread(detail.extent, detail.rate.span_ms);
  const found = detail.tables.findings || { rows: [], count: 0 };
  const charts = [];
  if (detail.timeline.bars.length) charts.push(ownershipFigure(detail.timeline, extent, since));
  if (head.commits) {
    charts.push(countsFigure({ title: "Commit rate", what: "offsets", counts: detail.rate, extent, since,
      look: { aside: true, slider: charts.length === 0 } }));
    charts.push(linesFigure(detail.lines, extent, since));
  }
  const back = GROUPS.length > 1 ? el("p", {}, el("a", { href: "#" }, "← All groups")) : null;
  main.replaceChildren(...[back, el("h2", { tabindex: "-1" }, "Group " + visible(head.group)),
    findingsList(found.rows.slice(0, FINDINGS_SHOWN).map((row) => [null, row]), found.count,
      "the table What looks wrong has them."),
    headFacts(head), ...warnings(compacted),
    extent[1] ? el("p", { class: "quiet" }, "Charts from " + formatTime(extent[0]) + " to "
      + formatTime(extent[1]) + " UTC. Drag to move, Ctrl and wheel to zoom, or use the slider.") : null,
    ...charts,
    detail.timeline.bars.length ? null : el("p", { class: "quiet" }, "The log has no record of its members."),
    ...DATA.sections.flatMap((section) =>
      sectionTable(section, detail.tables[section.name] || { rows: [], count: 0 }, since)),
    ...offsetsTable(detail.offsets)].filter((one) => one !== null));
  charts.forEach((chart) => chart.start("group"));
  echarts.connect("group");
}
