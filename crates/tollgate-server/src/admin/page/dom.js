// Elements, numbers and tables. Text is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "rect", "text", "g", "circle"]);

/** An element with attributes (functions are listeners) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replaces the text of an element, if it is another one. */
export function say(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

/** Sets an attribute, if it has another value. */
export function put(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Tells screen readers. */
export function announce(text) {
  say(document.getElementById("announce"), text);
}

const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** A count: exact up to six digits, then rounded. */
export const count = (number) => (Math.abs(number) < 1e6 ? exact : short).format(number);

/** A rate: with a decimal while it is small. */
export const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number));

/** A share of a whole, which may be empty. */
export function share(part, all) {
  if (!all) return "–";
  const percent = (100 * part) / all;
  return percent > 0 && percent < 0.1 ? "< 0.1 %" : `${percent.toFixed(1)} %`;
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** A time span of seconds in its two largest units. */
export function span(seconds) {
  if (seconds < 1) return seconds > 0 ? `${Math.ceil(seconds * 1000)} ms` : "0 s";
  let rest = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of UNITS) {
    if (rest >= size && parts.length < 2) {
      parts.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    }
  }
  return parts.join(" ");
}

/** A latency of microseconds; null is beyond the histogram. */
export function latency(micros, requests) {
  if (!requests) return "–";
  if (micros === null) return "> 524 ms";
  return micros < 1000 ? `≤ ${micros} µs` : `≤ ${(micros / 1000).toPrecision(3)} ms`;
}

/** A limit without the name that its rule has anyway. */
export const unnamed = (limit) => limit.replaceAll(/ name=("[^"]*"|[^\s;)]+)/g, "");

export const bytes = (number) => (number ? `${(number / 1048576).toFixed(1)} MiB` : "–");
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const day = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB");

/** A section with a heading. */
export function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}

/** A list of names and values. Returns the list and a function that shows other values. */
export function facts(...names) {
  const values = new Map(names.map((name) => [name, h("dd", {}, "–")]));
  const list = h("dl", { class: "facts" },
    names.map((name) => h("div", {}, h("dt", {}, name), values.get(name))));
  return [list, (all) => Object.entries(all).forEach(([name, value]) => say(values.get(name), value))];
}

/**
 * A table whose rows stay the same elements while their figures change, so that the focus stays.
 * Columns: { title, number, head, update(cell, row) }. A row is named by its rowId, or its id.
 */
export function table(caption, columns, empty) {
  const body = h("tbody");
  const heads = columns.map((column) =>
    h("th", { scope: "col", class: column.number ? "number" : "" }, column.head ?? column.title));
  const none = h("p", { class: "muted empty" }, empty);
  const whole = h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  const element = h("div", { class: "scroll" }, whole, none);
  const rows = new Map();
  const row = (id) => {
    const cells = columns.map((column, index) =>
      h(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, "data-title": column.title, class: column.number ? "number" : "" }));
    const made = { element: h("tr", {}, cells), cells };
    rows.set(id, made);
    return made;
  };
  const name = (entry) => entry.rowId ?? entry.id;
  const show = (all) => {
    none.hidden = all.length > 0;
    whole.hidden = all.length === 0;
    const seen = new Set(all.map(name));
    for (const [id, known] of rows) {
      if (!seen.has(id)) {
        known.element.remove();
        rows.delete(id);
      }
    }
    const elements = all.map((entry) => {
      const known = rows.get(name(entry)) ?? row(name(entry));
      columns.forEach((column, index) => column.update(known.cells[index], entry));
      return known.element;
    });
    const isSame = elements.length === body.children.length
      && elements.every((element, index) => element === body.children[index]);
    // A row that moves loses the focus. It waits until the focus is elsewhere.
    const hasNew = elements.some((element) => !element.isConnected);
    if (!isSame && (hasNew || !body.contains(document.activeElement))) body.replaceChildren(...elements);
  };
  return { element, show, heads };
}

/** A column of text or of a number. */
export const column = (title, value, number = true) => ({ title, number, update: (cell, row) => say(cell, value(row)) });
