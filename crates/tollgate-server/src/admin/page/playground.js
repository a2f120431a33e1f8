// A limit in words, and what each algorithm admits from a burst.

import { api } from "./api.js";
import { steps } from "./chart.js";
import { count, h, say } from "./dom.js";

const EXAMPLES = ["100/minute burst=20", "5/minute sliding-window", "100/second burst=200; 10000/day", "3 per 15 minutes elastic-window"];

/** The figures of the chart as a table. Its rows choose the line that is drawn thick. */
function figures(chart, mark) {
  const { steps_per_period: period, periods } = chart;
  const at = (admitted, step) => h("td", { class: "number" }, count(admitted[step]));
  return h("div", { class: "scroll" }, h("table", {},
    h("caption", { class: "hidden" }, "Admitted units by algorithm"),
    h("thead", {}, h("tr", {}, ["Algorithm", "At once", ...Array.from({ length: periods }, (_, index) => `After ${index + 1} period${index ? "s" : ""}`)]
      .map((title, index) => h("th", { scope: "col", class: index ? "number" : "" }, title)))),
    h("tbody", {}, chart.algorithms.map(({ algorithm, own, admitted }) =>
      h("tr", { class: own ? "own" : "", pointerenter: () => mark(algorithm), pointerleave: () => mark(null) },
        h("th", { scope: "row" }, h("i", { class: `mark ${algorithm}`, "aria-hidden": "true" }), algorithm, own ? h("span", { class: "pill good" }, "this limit") : null),
        at(admitted, 0),
        Array.from({ length: periods }, (_, index) => at(admitted, (index + 1) * period)))))));
}

function explained(limit) {
  const chart = steps(280);
  chart.show(limit.chart);
  return h("section", { class: "card" },
    h("h2", {}, h("code", {}, limit.limit)),
    h("dl", { class: "facts" },
      [["Algorithm", limit.algorithm], ["Admits", limit.admits], ["At most", limit.bound]]
        .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("h3", {}, "Admitted from a burst that goes on"),
    h("p", { class: "muted" }, "A client takes all it can get, all the time. It begins in the last quarter of a window of the clock, where fixed windows admit the most."),
    chart.element, figures(limit.chart, chart.mark));
}

export function page() {
  const input = h("input", { id: "limit", name: "limit", value: EXAMPLES[0], autocomplete: "off", spellcheck: "false", class: "wide", "aria-describedby": "limit-error" });
  const failed = h("p", { class: "error", role: "alert", id: "limit-error" });
  const answer = h("div");
  let newest = 0;
  const ask = async () => {
    newest += 1;
    const own = newest;
    try {
      const { limits } = await api(`playground?limit=${encodeURIComponent(input.value)}`);
      if (own !== newest) return;
      say(failed, "");
      answer.replaceChildren(...limits.map(explained));
    } catch (failure) {
      if (own === newest) say(failed, failure.message);
    }
  };
  const form = h("form", { class: "card", submit: (event) => {
    event.preventDefault();
    ask();
  } },
  h("div", { class: "row filter" }, h("label", { for: "limit" }, "Limit"), input, h("button", { type: "submit", class: "primary" }, "Explain")),
  failed,
  h("div", { class: "row" }, EXAMPLES.map((text) => h("button", { type: "button", class: "quiet", click: () => {
    input.value = text;
    ask();
  } }, text))));
  ask();
  return { element: h("div", {}, h("h1", {}, "Playground"), form, answer), end: () => {} };
}
