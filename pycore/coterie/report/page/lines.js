"use strict";
// Committed offsets over time, a line a partition; of several, what each gained since its first.

const MEASURES = { gain: "gained since the first commit shown", offset: "committed offset" };
// A turn through the palette each: dashes and points, so that forty lines look different.
const STROKES = [["solid", "emptyCircle"], ["dashed", "rect"], ["dotted", "triangle"], [[10, 3, 2, 3], "diamond"],
  [[2, 7], "pin"]];

function strokeOf(index) {
  return STROKES[Math.floor(index / PALETTE.length) % STROKES.length];
}

function gainOf(line, index) {  // exact, whatever the size of offsets
  return Number(BigInt(line.value[index]) - BigInt(line.value[0]));
}

function lineChoices(lines, name) {  // all, those of a topic, or one
  const choices = [{ label: "All", lines }];
  for (const topic of new Set(lines.map((line) => line.topic))) {
    const theirs = lines.filter((line) => line.topic === topic);
    choices.push({ label: visible(topic) + ": all", lines: theirs },
      ...theirs.map((line) => ({ label: name(line), lines: [line] })));
  }
  return choices;
}

function linesDescription(chosen, { span_ms: span, left_out: left }) {
  const sampled = chosen.filter((line) => line.sampled).length;
  const commits = chosen.reduce((sum, line) => sum + line.commits, 0);
  const points = chosen.reduce((sum, line) => sum + line.at.length, 0);
  return plural(chosen.length, "partition") + ", " + plural(commits, "commit") + ". "
    + (sampled ? "Down-sampled: of " + plural(sampled, "line") + " the last commit of each "
      + formatDuration(span) + " is drawn, " + formatNumber(points) + " points in all. "
      : "Every commit is a point. ")
    + (left ? "Left out: " + plural(left, "partition") + " with fewer commits than these." : "");
}

function linesOption(chosen, measure, name, extent, since) {
  const whole = base(extent, { aside: true });
  Object.assign(whole.yAxis, { name: MEASURES[measure], scale: true });
  whole.grid.top = 56;
  whole.legend = { type: "scroll", top: 0, data: chosen.map(name), textStyle: { color: colour("fg") },
    pageTextStyle: { color: colour("quiet") }, pageIconColor: colour("accent") };
  whole.tooltip.trigger = "item";
  whole.tooltip.formatter = ({ seriesName, data }) => tip(seriesName, formatTime(data.value[0]),
    "offset " + formatNumber(data.exact), formatNumber(data.gain) + " since the first commit shown");
  whole.series = chosen.map((line, place) => ({ type: "line", name: name(line), step: "end",
    symbol: strokeOf(place)[1], symbolSize: place < PALETTE.length ? 4 : 6,
    lineStyle: { width: 1.5, type: strokeOf(place)[0] }, emphasis: { focus: "series" },
    data: line.at.map((at, index) => {
      const gain = gainOf(line, index), exact = line.value[index];
      return { value: [at, measure === "gain" ? gain : Number(exact)], exact, gain };
    }) }));
  whole.series.push(...unknownSeries(extent, since));
  return whole;
}

function choose(id, label, texts) {
  const select = el("select", { id }, ...texts.map((text, index) => el("option", { value: index }, text)));
  return [select, el("label", { for: id }, label, select)];
}

function linesFigure(lines, extent, since) {
  const name = (line) => visible(line.topic) + "-" + line.partition;
  const choices = lineChoices(lines.lines, name), measures = Object.keys(MEASURES);
  const [partition, first] = choose("partition", "Partitions", choices.map((one) => one.label));
  const [measure, second] = choose("measure", "Show", measures.map((one) => MEASURES[one]));
  measure.value = lines.lines.length > 1 ? 0 : 1;  // lines far apart would all be flat
  const chosen = () => choices[partition.value].lines;
  const option = () => linesOption(chosen(), measures[measure.value], name, extent, since);
  const table = () => ({ caption: "Committed offsets over time", columns: [
    { label: "Partition", kind: "text", header: true, value: (row) => name(row[0]) },
    { label: "Time (UTC)", kind: "time", value: (row) => row[0].at[row[1]] },
    { label: "Offset", kind: "number", value: (row) => row[0].value[row[1]] }],
  rows: lines.lines.flatMap((line) => line.at.map((_, index) => [line, index])) });
  const node = figure({ title: "Committed offsets", description: linesDescription(chosen(), lines), height: 340,
    option, table, tools: el("div", { class: "tools" }, first, second) });
  const redraw = () => {
    node.say(linesDescription(chosen(), lines));
    node.chart.setOption(option(), { notMerge: true });
  };
  partition.addEventListener("change", redraw);
  measure.addEventListener("change", redraw);
  return node;
}
