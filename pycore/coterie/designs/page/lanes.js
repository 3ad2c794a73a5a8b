"use strict";
// One lane for each design: a row for each partition with who owned it when, above them what the
// scenario does, when a rebalance began and, where lanes have such, the moments that are worse than
// in another lane. Two owners have another colour, and no owner a dashed box.

function rowsAbove() {
  return ["scenario", "rebalances", ...(DATA.lanes.some((lane) => lane.worse) ? ["worse"] : [])];
}

const OWNER_TINTS = [0, 2, 3, 4, 5, 6, 7];  // of PALETTE; the one left out stands for two owners

function onClock(ms) {  // M:SS, with hours and milliseconds where there are some
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes, seconds] = [ms / 3600000, ms / 60000 % 60, ms / 1000 % 60].map(Math.floor);
  const rest = Math.floor(ms % 1000);
  return (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(seconds)
    + (rest ? "." + String(rest).padStart(3, "0") : "");
}

function ownerText(names) {
  return names.length ? names.map(visible).join(" + ") : "nobody";
}

function laneDescription(lane) {
  const [rebalances, unowned, shared] = ["rebalances", "unowned_seconds", "shared_seconds"].map(
    (name) => formatNumber(lane.costs[name]));
  return rebalances + " rebalances; partition-seconds without a consumer: " + unowned
    + ", with two or more: " + shared + ". " + (lane.left_out
    ? "Left out: " + plural(lane.left_out, "earlier bar") + ". " : "");
}

function laneRows(lane) {  // [row, from, until, what stands there]: marks first, then owners
  const span = lane.rebalances.span_ms, above = rowsAbove().length;
  return [
    ...DATA.marks.map(([at, count]) => [0, at, at + DATA.mark_ms, count]),
    ...lane.rebalances.marks.map(([at, count]) => [1, at, at + span, count]),
    ...(lane.worse || []).map(([from, until], index) => [2, from, until, index]),
    ...lane.bars.map(([row, ...rest]) => [row + above, ...rest]),
  ];
}

function drawnItem(lane) {
  const above = rowsAbove().length, fills = ["quiet", "accent", "warn"];
  return (params, api) => {
    const row = api.value(0), what = api.value(3), mark = row < above;
    const names = mark ? null : lane.owners[what];
    const from = api.coord([api.value(1), row]), to = api.coord([api.value(2), row]);
    const height = Math.min(api.size([0, 1])[1] * 0.76, 20);
    const width = mark && row < 2 ? Math.max(Math.min(to[0] - from[0], 6), 2) : Math.max(to[0] - from[0] - 0.5, 1);
    const shape = echarts.graphic.clipRectByRect(
      { x: from[0], y: from[1] - height / 2, width, height }, params.coordSys);
    if (!shape) return null;
    const tint = PALETTE[mark || !names.length ? 0 : OWNER_TINTS[lane.tints[what]]];
    const shared = !mark && names.length > 1, idle = !mark && !names.length;
    return { type: "rect", shape: { ...shape, r: mark ? 0 : 2 }, style: {
      fill: mark ? colour(fills[row]) : idle ? "transparent" : shared ? PALETTE[1] : tint,
      fillOpacity: mark ? 1 : shared ? 0.85 : 0.3,
      stroke: mark ? "none" : idle ? colour("quiet") : shared ? colour("warn") : tint,
      lineDash: idle ? [3, 3] : null },
    textConfig: { position: "insideLeft", distance: 4 },
    textContent: mark || idle || shape.width < 22 ? undefined : { type: "text", style: {
      text: ownerText(names), fill: shared ? "#1b2430" : colour("fg"), fontSize: 11,
      width: shape.width - 8, overflow: "truncate", ellipsis: "…" } } };
  };
}

function laneTip(lane, [row, from, to, what]) {
  if (row === 0) return tip(...opsAt(from, to).map(([at, text]) => onClock(at) + ": " + visible(text)));
  if (row === 1) return tip(plural(what, "rebalance"), to - from > 1
    ? "from " + onClock(from) + " to " + onClock(to) : "at " + onClock(from));
  const above = rowsAbove().length;
  if (row < above) return tip("worse: " + visible(lane.worse[what][2]),
    onClock(from) + " to " + onClock(to) + " (for " + onClock(to - from) + ")");
  const names = lane.owners[what];
  return tip(visible(DATA.partitions[row - above]),
    (names.length > 1 ? names.length + " owners: " : "") + ownerText(names),
    onClock(from) + " to " + onClock(to) + " (for " + onClock(to - from) + ")");
}

const TOLD_OPS = 12;  // in one tooltip

function opsAt(from, to) {
  const there = DATA.ops.filter(([at]) => at >= from && at < to);
  const more = there.length - TOLD_OPS;
  return more <= 0 ? there : [...there.slice(0, TOLD_OPS), [from, "and " + plural(more, "more op")]];
}

function laneOption(lane) {
  const whole = base([0, DATA.until_ms], { slider: true, aside: true });
  const names = [...rowsAbove(), ...DATA.partitions.map(visible)];
  whole.xAxis.axisLabel.formatter = onClock;
  whole.dataZoom[1].labelFormatter = onClock;
  whole.grid.top = 8;
  whole.yAxis = { type: "category", inverse: true, data: names.map((_, index) => index),
    axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: false },
    axisLabel: { color: colour("fg"), interval: 0, fontSize: 11, width: whole.grid.left - 12,
      overflow: "truncate", formatter: (index) => names[index] } };
  whole.tooltip.trigger = "item";
  whole.tooltip.formatter = ({ value }) => laneTip(lane, value);
  whole.series = [{ type: "custom", renderItem: drawnItem(lane), clip: true,
    encode: { x: [1, 2], y: 0 }, data: laneRows(lane) }];
  return whole;
}

function ownersTable(lane) {
  return { caption: "Who owned which partition when, " + lane.design, rows: lane.bars, columns: [
    { label: "Partition", kind: "text", header: true, value: (row) => DATA.partitions[row[0]] },
    { label: "From (ms)", kind: "number", value: (row) => row[1] },
    { label: "Until (ms)", kind: "number", value: (row) => row[2] },
    { label: "Lasted (ms)", kind: "number", value: (row) => row[2] - row[1] },
    { label: "Owners", kind: "number", value: (row) => lane.owners[row[3]].length },
    { label: "Who", kind: "text", value: (row) => ownerText(lane.owners[row[3]]) }] };
}

function rebalancesTable(lane) {
  const span = lane.rebalances.span_ms;
  return { caption: "When rebalances began, " + lane.design, rows: lane.rebalances.marks, columns: [
    { label: span > 1 ? "In " + formatNumber(span) + " ms from (ms)" : "At (ms)", kind: "number",
      header: true, value: (row) => row[0] },
    { label: "Rebalances", kind: "number", value: (row) => row[1] }] };
}

function laneLegend(who, began) {
  const swatch = (style, text) => el("span", {}, el("span", { class: "swatch", style }), text);
  return el("p", { class: "quiet legend" },
    swatch("background:" + PALETTE[0] + "4d;border-color:" + PALETTE[0], "one owner, a colour for each " + who),
    swatch("background:" + PALETTE[1], "two owners or more"),
    swatch("border-style:dashed", "no owner"),
    swatch("background:var(--accent)", began),
    rowsAbove().length > 2 ? swatch("background:var(--warn)", "worse than as it was") : null);
}

function laneFigure(lane) {
  const rows = rowsAbove().length + DATA.partitions.length;
  const node = figure({ title: lane.design, description: laneDescription(lane), option: () => laneOption(lane),
    table: () => ownersTable(lane), height: 64 + 24 * rows, tall: rows > 24 });
  node.append(tableOnDemand("Rebalances as a table", () => rebalancesTable(lane)));
  return node;
}
