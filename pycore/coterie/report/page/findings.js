"use strict";
// Findings in words, the most severe first: what a page begins with.

const FINDING = Object.fromEntries(DATA.sections.find((one) => one.name === "findings").columns
  .map(({ name }, place) => [name, place]));
const FINDINGS_SHOWN = 10;

function findingLine(group, row) {  // group: null on its own page
  const severity = row[FINDING.severity], topic = row[FINDING.topic], partition = row[FINDING.partition];
  const place = topic === null ? null : visible(topic) + (partition === null ? "" : "-" + partition);
  const time = row[FINDING.timestamp];
  const names = [group === null ? null : el("a", { href: address(group) }, visible(group) || "(empty id)"),
    place].filter((one) => one !== null).flatMap((one, number) => number ? [", ", one] : [one]);
  return el("li", { class: severity }, el("strong", {}, DATA.severities[severity]), " ",
    ...names, names.length ? ": " : "", FORMATS.text(row[FINDING.detail]),
    el("span", { class: "quiet" }, " " + visible(row[FINDING.kind])
      + (time === null ? "" : ", " + formatTime(time) + " UTC")));
}

function findingsList(pairs, count, rest) {  // pairs: group, row; rest: where the others are
  const left = count - pairs.length;
  return count ? el("section", { class: "findings", "aria-label": "Findings" },
    el("ol", {}, ...pairs.map(([group, row]) => findingLine(group, row))),
    left ? el("p", { class: "quiet" }, plural(left, "more finding") + ": " + rest) : null) : null;
}
