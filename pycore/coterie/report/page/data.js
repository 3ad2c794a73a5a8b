"use strict";
// The page's data: the overview as it is, a group's own parts deflated until it is opened.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLUMN = Object.fromEntries(DATA.columns.map((name, number) => [name, number]));
const GROUPS = DATA.groups.map((row, number) => Object.assign(row, { number }));
const NUMBER_OF = new Map(GROUPS.map((row) => [row[COLUMN.group], row.number]));

async function detailOf(number) {
  const raw = Uint8Array.from(atob(DATA.details[number]), (one) => one.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
