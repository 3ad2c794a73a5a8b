"use strict";
// Who owned which partitions when: a row a member, a bar from one record of the group to the next.
// A static member has one row, whatever its member ids were.

function memberName([client, host, instance, member], short) {
  const id = visible(instance || client || member);
  const where = host ? " " + visible(host).replace(/^\//, "") : "";
  return short && id.length > 22 ? id.slice(0, 21) + "…" : id + where;
}

function memberNames(members, short) {  // those of one client and host get part of their id
  const names = members.map((member) => memberName(member, short)), count = new Map();
  names.forEach((name) => count.set(name, (count.get(name) || 0) + 1));
  return names.map((name, index) => {
    const [client, , , id] = members[index];
    const own = client && id.startsWith(client + "-") ? id.slice(client.length + 1) : id;
    return count.get(name) > 1 ? name + " " + visible(own.slice(0, 8)) : name;
  });
}

function generationsOf(bars) {  // [start, end, number]: from its first bar to its last
  const found = new Map();
  for (const [, start, end, number] of bars) {
    const key = number + " " + start, held = found.get(key);
    found.set(key, held ? [start, Math.max(held[1], end), number] : [start, end, number]);
  }
  return [...found.values()];
}

function ownershipFigure(timeline, extent, since) {
  const { members, ids, assignments, bars, left_out: left } = timeline;
  const rounds = generationsOf(bars);
  const description = plural(members.length, "member") + " in " + plural(rounds.length, "generation")
    + ". A bar goes from a record of the group to the next." + unknownText(extent, since) + " "
    + (left.members ? "Left out: " + plural(left.members, "member") + " that stayed shorter. " : "")
    + (left.generations ? "Left out: " + plural(left.generations, "earlier record") + ". " : "");
  const say = (index) => assignments[index][0] === null ? "not told as partitions"
    : assignments[index][0] === 0 ? "no partition" : visible(assignments[index][1]);
  const item = (params, api) => {
    const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
    const height = Math.min(api.size([0, 1])[1] * 0.72, 20), area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect({ x: from[0], y: from[1] - height / 2,
      width: Math.max(to[0] - from[0] - 1, 1), height }, area);
    if (!shape) return null;
    const data = api.value(0) === 0 ? null : assignments[api.value(4)];
    const idle = data && data[0] === 0;
    const text = data === null ? String(api.value(3)) : data[0] ? data[0] + " · " + visible(data[1]) : "";
    return { type: "rect", shape: { ...shape, r: 2 }, style: {
      fill: data === null ? colour("panel") : idle ? "transparent" : colour("bar"),
      stroke: data === null ? colour("line") : colour("bar-line"), lineDash: idle ? [3, 3] : null },
    textConfig: { position: "insideLeft", distance: 4 },
    textContent: shape.width < 22 ? undefined : { type: "text", style: { text, fill: colour("fg"),
      fontSize: 11, width: shape.width - 8, overflow: "truncate", ellipsis: "…" } } };
  };
  const option = () => {
    const whole = base(extent, { slider: true, aside: true }), narrow = window.innerWidth < NARROW;
    const names = ["generation", ...memberNames(members, narrow)];
    whole.grid.top = 8;
    whole.yAxis = { type: "category", inverse: true, data: names.map((_, index) => index),
      axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: false },
      axisLabel: { color: colour("fg"), interval: 0, fontSize: 11,
        width: whole.grid.left - 12, overflow: "truncate", formatter: (index) => names[index] } };
    whole.tooltip.trigger = "item";
    whole.tooltip.formatter = ({ value: [row, from, to, number, held, id] }) => tip(
      row ? memberName(members[row - 1]) : "generation " + number,
      row ? visible(ids[id]) : null,
      "generation " + number + ", " + formatTime(from) + " to " + formatTime(to)
        + " (" + formatDuration(to - from) + ")",
      row ? say(held) : null);
    whole.series = [{ type: "custom", renderItem: item, encode: { x: [1, 2], y: 0 }, clip: true,
      data: [...rounds.map(([from, to, number]) => [0, from, to, number, -1]),
        ...bars.map(([member, ...rest]) => [member + 1, ...rest])] }, ...unknownSeries(extent, since, false)];
    return whole;
  };
  const table = () => ({ caption: "Who owned which partitions when", rows: bars, columns: [
    { label: "Member", kind: "text", header: true, value: (row) => memberName(members[row[0]]) },
    { label: "Member id", kind: "text", value: (row) => ids[row[5]] },
    { label: "From (UTC)", kind: "time", value: (row) => row[1] },
    { label: "Until (UTC)", kind: "time", value: (row) => row[2] },
    { label: "Generation", kind: "number", value: (row) => row[3] },
    { label: "Partitions", kind: "number", value: (row) => assignments[row[4]][0] },
    { label: "Which", kind: "text", value: (row) => say(row[4]) }] });
  return figure({ title: "Members and their partitions", description, option, table,
    height: 64 + 26 * (members.length + 1), tall: members.length > 20 });
}
