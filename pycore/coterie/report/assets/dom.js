"use strict";
// Elements and texts. All text from the log goes in as text nodes, never as markup.

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const NONE = "–";

function visible(text) {  // what would not show, or would turn the text around, as its number
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029]/gu, (one) =>
    "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));
}

function formatTime(ms) {
  if (ms === null || ms === undefined) return NONE;
  const time = new Date(ms);
  if (Number.isNaN(time.getTime())) return ms + " ms";
  return time.toISOString().replace("T", " ").replace("Z", "");
}

function formatDuration(ms) {
  if (ms === null || ms === undefined) return NONE;
  const sign = ms < 0 ? "-" : "", size = Math.abs(ms);
  const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  for (const [unit, name] of units) {
    if (size >= unit) return sign + (size / unit).toFixed(1).replace(/\.0$/, "") + " " + name;
  }
  return sign + size + " ms";
}

function formatNumber(value) {  // beyond what a double holds, numbers come as text
  if (value === null || value === undefined) return NONE;
  return typeof value === "number" ? value.toLocaleString("en") : BigInt(value).toLocaleString("en");
}

const FORMATS = {
  text: (value) => value === null || value === undefined || value === "" ? NONE : visible(value),
  number: formatNumber,
  time: formatTime,
  minute: (ms) => formatTime(ms).replace(/:\d+\.\d+$/, ""),
  second: (ms) => formatTime(ms).replace(/\.\d+$/, ""),
  duration: formatDuration,
};
const CLASSES = { text: "text", number: "number", time: "time", second: "time", minute: "time", duration: "number" };

function plural(count, what) {
  return formatNumber(count) + " " + what + (count === 1 ? "" : "s");
}

function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined) continue;
    list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}
