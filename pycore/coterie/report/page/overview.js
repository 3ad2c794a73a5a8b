"use strict";
// All groups: what the log holds, a search, and a table that opens them.

function logFacts() {
  const log = DATA.log, states = new Map();
  GROUPS.forEach((row) => states.set(row[COLUMN.state], (states.get(row[COLUMN.state]) || 0) + 1));
  const stateCounts = [...states].map(([state, count]) => formatNumber(count) + " " + state).join(", ");
  return facts([["Groups", formatNumber(GROUPS.length) + " (" + stateCounts + ")"], ["Records", formatNumber(log.records)],
    ["Partitions read", formatNumber(log.partitions)], ["From (UTC)", formatTime(log.from_ms)],
    ["Until (UTC)", formatTime(log.until_ms)]]);
}

function compactedNote([partition, since]) {
  return (partition === null ? "The partition" : "__consumer_offsets-" + partition)
    + " is whole since " + formatTime(since) + " UTC";
}

function latest(compacted) {  // since when all partitions are whole; null: since their start
  return compacted.length ? Math.max(...compacted.map(([, since]) => since)) : null;
}

function nothingFound(since) {
  const { nothing } = DATA.sections.find((one) => one.name === "findings");
  return nothing + (since === null ? "" : " That holds since " + formatTime(since)
    + " UTC: the log was compacted before.");
}

function banner(compacted) {  // what compaction may have taken must not be read as never there
  if (!compacted.length) return null;
  const few = compacted.slice(0, 5);
  const more = compacted.length - few.length;
  return el("div", { class: "banner", role: "note" }, el("strong", {}, "Compacted. "),
    few.map(compactedNote).join("; ") + (more ? "; " + plural(more, "more partition") + " since "
      + formatTime(latest(compacted)) + " at the latest" : "") + ". Rebalances and commits are counted since then; "
      + "what is told of before is true, but may not be all.");
}

function warnings(compacted) {
  const { faults, clock_notes: clocks } = DATA.log, note = banner(compacted);
  const times = clocks.map((text) => el("div", { class: "banner", role: "note" },
    el("strong", {}, "A clock went back. "), text + "."));
  return [...(note ? [note] : []), ...times, ...(faults ? [el("p", { class: "warn" },
    plural(faults, "corrupt place") + " left out; coterie verify lists them.")] : [])];
}

function stateOf(row) {
  const state = row[COLUMN.state];
  return el("span", { class: "state " + (/^\w+$/.test(state) ? state : "") }, state);
}

function address(group) {
  return "#group=" + encodeURIComponent(group);
}

function groupColumns() {
  const column = (name, label, kind) => ({ label, kind, value: (row) => row[COLUMN[name]] });
  const counted = DATA.counted.map(({ name, label, kind }) => column(name, label, kind));
  return [
    { ...column("group", "Group", "text"), header: true, node: (row) =>
      el("a", { href: address(row[COLUMN.group]), title: row[COLUMN.group].length > 60 ? visible(row[COLUMN.group]) : null }, visible(row[COLUMN.group]) || "(empty id)") },
    { ...column("state", "State", "text"), node: stateOf },
    column("protocol", "Protocol", "text"),
    column("members", "Members", "number"), column("partitions", "Partitions", "number"),
    column("requests", "Commits", "number"), column("commits", "Offsets committed", "number"),
    column("rebalances", "Rebalances", "number"),
    ...counted.filter((one) => one.kind === "number"),
    column("last_commit", "Last commit (UTC)", "second"),
    ...counted.filter((one) => one.kind !== "number"),
  ];
}

const search = { text: "", state: "", sorted: [0, false] };  // kept while groups are looked at

function wantedGroups(names) {
  const text = search.text.toLowerCase();
  const topics = new Set(DATA.topics.flatMap((topic, number) =>
    text && topic.toLowerCase().includes(text) ? [number] : []));
  return GROUPS.filter((row, number) => (!search.state || row[COLUMN.state] === search.state)
    && (!text || names[number].includes(text) || row[COLUMN.topics].some((topic) => topics.has(topic))));
}

function overview(main) {
  const names = GROUPS.map((row) => row[COLUMN.group].toLowerCase());
  const states = [...new Set(GROUPS.map((row) => row[COLUMN.state]))].sort();
  const input = el("input", { type: "search", id: "search", autocomplete: "off", value: search.text,
    "aria-describedby": "found" });
  const select = el("select", { id: "state" }, el("option", { value: "" }, "Any"),
    ...states.map((state) => el("option", { selected: state === search.state }, state)));
  const found = el("span", { role: "status", id: "found", class: "quiet" });
  const table = new DataTable({ caption: "Groups", columns: groupColumns(), rows: wantedGroups(names),
    size: 100, sorted: search.sorted });
  const refresh = () => {
    Object.assign(search, { text: input.value.trim(), state: select.value });
    const rows = wantedGroups(names);
    table.setRows(rows);
    found.textContent = formatNumber(rows.length) + " of " + plural(GROUPS.length, "group");
  };
  input.addEventListener("input", refresh);
  select.addEventListener("change", refresh);
  refresh();
  const extent = spread([DATA.log.from_ms, DATA.log.until_ms], DATA.commits.span_ms);
  const since = latest(DATA.log.compacted);
  const charts = [
    countsFigure({ title: "Offsets committed", what: "offsets", counts: DATA.commits, extent, since,
      look: { slider: true } }),
    countsFigure({ title: "Rebalances", what: "rebalances", counts: DATA.rebalances, extent, since, tint: 1,
      look: { slider: true } })];
  const { rows: findings, count } = DATA.findings;
  main.replaceChildren(el("h2", { tabindex: "-1" }, "What looks wrong"),
    findingsList(findings, count, "the column Findings counts those of each group.")
      || el("p", {}, nothingFound(latest(DATA.log.compacted))),
    el("h2", {}, "The log"), logFacts(), ...warnings(DATA.log.compacted), el("div", { class: "pair" }, ...charts),
    el("h2", {}, "Groups"), el("div", { class: "tools", role: "search" },
      el("label", { for: "search" }, "Find by group or topic", input),
      el("label", { for: "state" }, "State", select), found),
    table.element);
  table.element.classList.add("groups");
  charts.forEach((chart) => chart.start("overview"));
  echarts.connect("overview");
  window.addEventListener("hashchange", () => { search.sorted = table.sorted; }, { once: true });
}
