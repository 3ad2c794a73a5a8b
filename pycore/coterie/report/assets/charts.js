"use strict";
// Charts of what happened over time. Colours are those of the page; tooltips are elements, so that
// no name of a group or a client is ever read as markup.

const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f5fc5", "#808080"];
const UNKNOWN = "compacted: not known";
let drawn = [];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function forgetCharts() {
  drawn.forEach((one) => { one.observer.disconnect(); one.chart.dispose(); });
  drawn = [];
}

function redrawCharts() {
  drawn.forEach((one) => one.chart.setOption(one.option(), { notMerge: true }));
}

// A table that is made when it is first opened.
function tableOnDemand(summary, table) {
  const data = el("details", {}, el("summary", {}, summary));
  data.addEventListener("toggle", () => {
    if (data.open && data.children.length === 1) data.append(new DataTable(table()).element);
  });
  return data;
}

// A figure: heading, what it says, the chart, and the same as a table.
function figure({ title, description, height, option, table, tall = false, tools = null }) {
  const holder = el("div", { class: "chart", role: "img", "aria-label": title + ". " + description,
    style: "height:" + height + "px" });
  const data = tableOnDemand("The same as a table", table);
  const paragraph = el("p", { class: "quiet" }, description);
  const node = el("figure", {}, el("figcaption", {}, el("h3", {}, title), paragraph), tools,
    tall ? el("div", { class: "tall", tabindex: "0", role: "region", "aria-label": title }, holder) : holder,
    data);
  node.start = (group) => {  // once it is in the page, and has a width
    const chart = echarts.init(holder, null, { renderer: "canvas" });
    if (group) chart.group = group;
    const observer = new ResizeObserver(() => chart.resize());
    observer.observe(holder);
    chart.setOption(option());
    drawn.push({ chart, option, observer });
    node.chart = chart;
  };
  node.say = (text) => {
    paragraph.textContent = text;
    holder.setAttribute("aria-label", title + ". " + text);
  };
  return node;
}

const NARROW = 600;  // px of the window

function base(extent, { slider = false, aside = false } = {}) {
  const text = colour("quiet"), line = colour("line");
  // Bars would widen the axis of their chart, and times would stand elsewhere than in the others.
  const time = { type: "time", containShape: false, axisLabel: { color: text, hideOverlap: true }, splitNumber: 6,
    axisLine: { lineStyle: { color: line } }, splitLine: { show: false } };
  if (extent) Object.assign(time, { min: extent[0], max: Math.max(extent[1], extent[0] + 1) });
  return {
    animation: false, useUTC: true, color: PALETTE, textStyle: { color: text },
    // On a group's page all charts begin at one place, so that times stand above one another.
    grid: { left: aside ? (window.innerWidth < NARROW ? 96 : 170) : 8, right: 18, top: 26,
      bottom: slider ? 52 : 26, containLabel: !aside },
    xAxis: time,
    yAxis: { type: "value", axisLabel: { color: text }, splitLine: { lineStyle: { color: line } },
      nameTextStyle: { color: text, align: "left" }, nameGap: 10, minInterval: 1 },
    tooltip: { trigger: "axis", confine: true, backgroundColor: colour("bg"), borderColor: line,
      textStyle: { color: colour("fg"), fontSize: 12 } },
    dataZoom: [
      { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true },
      { type: "slider", show: slider, height: 16, bottom: 6, borderColor: line, textStyle: { color: text },
        showDataShadow: false, brushSelect: false, labelFormatter: (value) => formatTime(value) },
    ],
  };
}

function tip(...lines) {
  return el("div", { style: "max-width:26rem;white-space:normal;overflow-wrap:anywhere" },
    ...lines.map((line) => el("div", {}, line)));
}

function spread([start, end], span_ms) {  // to whole spans, so that the first and the last are seen
  return [Math.floor(start / span_ms) * span_ms, (Math.floor(end / span_ms) + 1) * span_ms];
}

function unknownText(extent, since) {
  return since === null || since <= extent[0] ? "" : " Before " + formatTime(since)
    + " UTC the log was compacted: what is missing there is not known.";
}

function unknownSeries(extent, since, named = true) {  // time before a log is complete: unknown is not zero
  if (since === null || since <= extent[0]) return [];
  return [{ type: "line", name: UNKNOWN, data: [], silent: true, markArea: { silent: true,
    itemStyle: { color: colour("unknown") }, label: { show: named, position: "insideTopLeft", color: colour("quiet") },
    data: [[{ name: UNKNOWN, xAxis: extent[0] }, { xAxis: Math.min(since, extent[1]) }]] } }];
}

function countsFigure({ title, what, counts, extent, since = null, tint = 0, look }) {
  const total = counts.count.reduce((sum, one) => sum + one, 0);
  const most = Math.max(0, ...counts.count);
  const span = formatDuration(counts.span_ms);
  const places = counts.at.map((at, index) => [at + counts.span_ms / 2, counts.count[index]]);
  const description = total === 0 ? "None in the log." : formatNumber(total) + " in all, at most "
    + formatNumber(most) + " in " + span + ". Counted by spans of " + span + ".";
  const option = () => {
    const whole = base(extent, look);
    whole.yAxis.name = what + " in " + span;
    whole.tooltip.formatter = ([point]) => tip(formatTime(point.value[0] - counts.span_ms / 2)
      + ", " + span, formatNumber(point.value[1]) + " " + what);
    whole.series = [{ type: "bar", name: what, data: places, barMaxWidth: 14, barMinWidth: 1.5,
      itemStyle: { color: PALETTE[tint] } }, ...unknownSeries(extent, since)];
    return whole;
  };
  const table = () => ({ caption: title, rows: counts.at.map((_, index) => index), columns: [
    { label: "From (UTC)", kind: "time", header: true, value: (row) => counts.at[row],
      node: (row) => formatTime(counts.at[row]) },
    { label: what + " in " + span, kind: "number", value: (row) => counts.count[row] }] });
  return figure({ title, description: description + unknownText(extent, since), height: 220, option, table });
}

