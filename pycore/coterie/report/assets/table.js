"use strict";
// A table that sorts by its headings and shows so many rows at once.

const collator = new Intl.Collator("en", { numeric: true });

function compare(one, other) {  // what is not known stands last, whichever way is sorted
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(String(one), String(other));
}

function widthOf(held) {  // short texts stay whole, long ones get room to be read
  return held.length < 25 ? " short" : held.length > 40 ? " long" : "";
}

class DataTable {
  // columns: {label, kind, value(row), node(row)?, header?}; sorted: [column, descending]
  constructor({ caption, columns, rows, size = 50, sorted = null }) {
    Object.assign(this, { columns, rows, size, shown: size, sorted });
    this.body = el("tbody");
    this.heads = columns.map((column, number) => el("th",
      { scope: "col", class: CLASSES[column.kind] },
      el("button", { type: "button", onclick: () => this.sortBy(number) }, column.label)));
    this.more = el("div", { class: "more" });
    const table = el("table", {}, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.element = el("div", {}, el("div",
      { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, table), this.more);
    this.draw();
  }

  sortBy(number) {
    const again = this.sorted && this.sorted[0] === number;
    this.sorted = [number, again ? !this.sorted[1] : this.columns[number].kind !== "text"];
    this.draw();
  }

  setRows(rows) {
    this.rows = rows;
    this.shown = this.size;
    this.draw();
  }

  inOrder() {
    if (!this.sorted) return this.rows;
    const [number, descending] = this.sorted, value = this.columns[number].value;
    const known = [], unknown = [];
    for (const row of this.rows) {
      const held = value(row);
      (held === null || held === undefined || held === "" ? unknown : known).push([held, row]);
    }
    known.sort((a, b) => descending ? compare(b[0], a[0]) : compare(a[0], b[0]));
    return [...known, ...unknown.map((row) => [null, row[1]])].map((pair) => pair[1]);
  }

  draw() {
    this.heads.forEach((head, number) => {
      const is = this.sorted && this.sorted[0] === number;
      if (is) head.setAttribute("aria-sort", this.sorted[1] ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const rows = this.inOrder();
    this.body.replaceChildren(...rows.slice(0, this.shown).map((row) => this.line(row)));
    const left = rows.length - this.shown;
    this.more.replaceChildren(...(left <= 0 ? [] : [
      el("span", { class: "quiet" }, plural(left, "more row")),
      el("button", { type: "button", onclick: () => this.grow(this.size) }, "Show " + Math.min(this.size, left)),
      el("button", { type: "button", onclick: () => this.grow(left) }, "Show all"),
    ]));
  }

  grow(by) {
    const first = this.shown;
    this.shown += by;
    this.draw();
    const row = this.body.rows[first];
    if (row) { row.tabIndex = -1; row.focus(); }
  }

  line(row) {
    return el("tr", {}, ...this.columns.map((column) => {
      const held = column.node ? column.node(row) : FORMATS[column.kind](column.value(row));
      return column.header ? el("th", { scope: "row" }, held)
        : el("td", { class: CLASSES[column.kind] + widthOf(held) }, held);
    }));
  }
}
