// Charts as SVG. Colours come from classes, so that both themes and the policy of the page hold.

import { count, h, put, say } from "./dom.js";

/** A round number that is at least as large, and whose quarters are round too. */
function roof(number) {
  if (number <= 12) return Math.max(4, Math.ceil(number / 4) * 4);
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 1.2, 1.6, 2, 4, 6, 8, 10].map((step) => Math.round(step * power)).find((step) => step >= number);
}

const point = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;

const LEFT = 46;
const BOTTOM = 22;
const TOP = 8;

/** The frame of a chart: an SVG as wide as its place, with lines and labels. */
class Frame {
  constructor(height, label) {
    this.height = height;
    this.width = 600;
    this.grid = h("g", { class: "grid", "aria-hidden": "true" });
    this.drawing = h("g", { "aria-hidden": "true" });
    this.svg = h("svg", { class: "chart", role: "img", "aria-label": label, height, width: "100%" }, this.grid, this.drawing);
    this.element = h("div", { class: "chart-box" }, this.svg);
    new ResizeObserver(([entry]) => {
      const width = Math.max(200, Math.round(entry.contentRect.width));
      if (width !== this.width) {
        this.width = width;
        this.redraw?.();
      }
    }).observe(this.element);
  }

  x(part) {
    return LEFT + part * (this.width - LEFT - 6);
  }

  y(part) {
    return this.height - BOTTOM - part * (this.height - BOTTOM - TOP);
  }

  /** Lines at four heights, and labels below: [part, text]. */
  axes(most, labels) {
    const key = `${this.width} ${most} ${labels.join()}`;
    if (key === this.drawn) return;
    this.drawn = key;
    put(this.svg, "viewBox", `0 0 ${this.width} ${this.height}`);
    const lines = [0, 0.25, 0.5, 0.75, 1].flatMap((part) => [
      h("line", { x1: LEFT, x2: this.width - 6, y1: this.y(part), y2: this.y(part) }),
      h("text", { x: LEFT - 8, y: this.y(part) + 4, "text-anchor": "end" }, count(most * part)),
    ]);
    const below = labels.map(([part, text]) => h("text", {
      x: this.x(part),
      y: this.height - 5,
      "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle",
    }, text));
    this.grid.replaceChildren(...lines, ...below);
  }
}

/**
 * Areas on top of each other over the last `length` seconds. `names` are the series, the lowest
 * first. The arrow keys move a cursor, whose figures are shown above.
 */
export function live(names, length, height) {
  const frame = new Frame(height, "Decisions per second");
  const paths = names.map((name) => h("path", { class: `area ${name}` }));
  const cursor = h("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  frame.drawing.append(...paths, cursor);
  const values = new Map(names.map((name) => [name, h("span", { class: "figure" }, "0")]));
  const when = h("span", { class: "when" }, "now");
  const legend = h("div", { class: "legend" }, when,
    names.map((name) => h("span", { class: "entry" }, h("i", { class: `mark ${name}`, "aria-hidden": "true" }), name, values.get(name))));
  let series = { newest: 0, counts: [] };
  let back = 0;

  const figures = () => {
    const seconds = series.counts.length;
    const at = series.counts[seconds - 1 - back] ?? {};
    for (const name of names) say(values.get(name), count(at[name] ?? 0));
    say(when, back ? `${Math.floor(back / 60)}:${String(back % 60).padStart(2, "0")} ago` : "now");
    const x = frame.x(1 - back / (length - 1));
    put(cursor, "x1", x);
    put(cursor, "x2", x);
    put(cursor, "visibility", back ? "visible" : "hidden");
  };
  const draw = () => {
    const { counts } = series;
    const sums = counts.map((second) => names.reduce((sum, name) => sum + (second[name] ?? 0), 0));
    const most = roof(Math.max(1, ...sums));
    frame.axes(most, [[0, "15 min"], [1 / 3, "10 min"], [2 / 3, "5 min"], [1, "now"]]);
    const below = counts.map(() => 0);
    const x = (index) => frame.x(1 - (counts.length - 1 - index) / (length - 1));
    names.forEach((name, number) => {
      const floor = below.map((value, index) => point(x(index), frame.y(value / most)));
      counts.forEach((second, index) => { below[index] += second[name] ?? 0; });
      const top = below.map((value, index) => point(x(index), frame.y(value / most)));
      put(paths[number], "d", top.length > 1 ? `M${top.join("L")}L${floor.reverse().join("L")}Z` : "");
    });
    figures();
  };
  const move = (seconds) => {
    back = Math.max(0, Math.min(seconds, series.counts.length - 1));
    figures();
  };
  frame.redraw = draw;
  put(frame.svg, "tabindex", "0");
  frame.svg.addEventListener("pointermove", (event) => {
    const { left } = frame.svg.getBoundingClientRect();
    const part = (event.clientX - left - LEFT) / (frame.width - LEFT - 6);
    move(Math.round((1 - part) * (length - 1)));
  });
  frame.svg.addEventListener("pointerleave", () => move(0));
  frame.svg.addEventListener("blur", () => move(0));
  frame.svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 5, ArrowRight: -5, PageUp: 60, PageDown: -60 }[event.key];
    if (!step) return;
    event.preventDefault();
    move(back + step);
  });
  const show = (next) => {
    series = next;
    draw();
  };
  const describe = (text) => put(frame.svg, "aria-label", text);
  return { element: h("div", {}, legend, frame.element), show, describe };
}

/** A small chart of a rule: what passed, and what was denied on top of it. */
export function spark(width = 160, height = 34) {
  const passed = h("path", { class: "area allowed" });
  const denied = h("path", { class: "area denied" });
  const svg = h("svg", { class: "spark", role: "img", width, height, viewBox: `0 0 ${width} ${height}` }, passed, denied);
  const area = (top, floor) => (top.length > 1 ? `M${top.join("L")}L${floor.reverse().join("L")}Z` : "");
  const show = (history) => {
    const all = history.passed.map((value, index) => value + history.shadowed[index] + history.denied[index]);
    const most = Math.max(1, ...all);
    const x = (index) => (index * width) / Math.max(1, all.length - 1);
    const line = (values) => values.map((value, index) => point(x(index), height - 1 - (value / most) * (height - 3)));
    const refused = history.denied.map((value, index) => value + history.shadowed[index]);
    put(passed, "d", area(line(all), line(refused)));
    put(denied, "d", area(line(refused), line(all.map(() => 0))));
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    put(svg, "aria-label", all.length
      ? `last 15 minutes: ${count(sum(all))} hits, ${count(sum(refused))} denied, at most ${count(most)} in ${history.span_seconds} seconds`
      : "no hits in the last 15 minutes");
  };
  return { element: svg, show };
}

/** A bar that shows how much of a limit is in use. */
export function bar(label) {
  const meter = h("meter", { min: 0, max: 1, low: 0.7, high: 0.95, optimum: 0, value: 0, "aria-label": label });
  const show = (used, capacity) => {
    const part = capacity ? Math.min(1, used / capacity) : 0;
    meter.value = part;
    put(meter, "aria-valuetext", `${used} of ${capacity} in use`);
  };
  return { element: meter, show };
}

/** Lines of the playground: admitted units over time, one line for each algorithm. */
export function steps(height) {
  const frame = new Frame(height, "Admitted units over time by algorithm");
  let data = null;
  let marked = null;
  const draw = () => {
    if (!data) return;
    const { algorithms, steps_per_period: period, periods } = data;
    const most = roof(Math.max(1, ...algorithms.flatMap(({ admitted }) => admitted)));
    const last = period * periods;
    const labels = Array.from({ length: periods + 1 }, (_, index) => [index / periods, index === 0 ? "0" : `${index} period${index > 1 ? "s" : ""}`]);
    frame.axes(most, labels);
    const isOn = ({ algorithm, own }) => (marked === null ? own : algorithm === marked);
    const sorted = [...algorithms].sort((one, other) => isOn(one) - isOn(other));
    frame.drawing.replaceChildren(...sorted.map((line) => {
      const points = line.admitted.map((units, index) => {
        const y = frame.y(units / most);
        const before = index ? frame.y(line.admitted[index - 1] / most) : frame.y(0);
        const x = frame.x(index / last);
        return `${point(x, before)}L${point(x, y)}`;
      });
      return h("path", { class: `line ${line.algorithm}${isOn(line) ? " on" : ""}`, d: `M${points.join("L")}` });
    }));
  };
  frame.redraw = draw;
  const show = (next) => {
    data = next;
    draw();
  };
  const mark = (algorithm) => {
    marked = algorithm;
    draw();
  };
  return { element: frame.element, show, mark };
}
