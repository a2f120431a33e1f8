// The rules in force: sorted, searched, each with a small chart.

import { api, poll } from "./api.js";
import { spark } from "./chart.js";
import { column, count, h, put, say, share, table, unnamed } from "./dom.js";

const hits = (rule) => rule.allowed + rule.denied + rule.shadowed + rule.exempt + rule.blocked + rule.banned;
const refused = (rule) => rule.denied + rule.blocked + rule.banned;
const part = (rule) => (hits(rule) ? refused(rule) / hits(rule) : 0);
const place = (rule) => (rule.domain ? `domain ${rule.domain}` : rule.namespace ? `namespace ${rule.namespace}` : "");
const title = (rule) => (rule.inline ? "limits of requests" : rule.name);
const words = (rule) => (rule.inline
  ? "Limits that came with requests and are no rules, counted together."
  : rule.limits.length ? rule.limits.map(({ admits }) => admits).join("; and ") : rule.limit);
const text = (rule) => `${title(rule)} ${place(rule)} ${rule.limit ?? ""} ${words(rule)}`.toLowerCase();

const SORTS = {
  "Rule": (one, other) => title(one).localeCompare(title(other)),
  "Hits": (one, other) => hits(other) - hits(one),
  "Denied": (one, other) => part(other) - part(one),
  "In shadow": (one, other) => other.shadowed - one.shadowed,
};

function describe(cell, rule) {
  if (!cell.made) {
    const made = { name: h("span", { class: "name" }), place: h("span", { class: "muted" }), shadow: h("span", { class: "pill" }, "shadow"), words: h("span", { class: "words" }), limit: h("code"), list: h("ul"), summary: h("summary") };
    made.details = h("details", {}, made.summary, made.list);
    cell.append(h("div", { class: "row" }, made.name, made.place, made.shadow), made.words, made.limit, made.details);
    cell.made = made;
  }
  const { made } = cell;
  say(made.name, title(rule));
  say(made.place, place(rule));
  made.place.hidden = !place(rule);
  made.shadow.hidden = !rule.shadow;
  say(made.words, words(rule));
  say(made.limit, rule.limits?.map(({ limit }) => unnamed(limit)).join("; ") ?? "");
  const others = [
    ...(rule.overrides ?? []).map(({ pattern, limit }) => `${pattern}: ${unnamed(limit)}`),
    ...(rule.costs ?? []).map(({ pattern, cost }) => `${pattern}: a hit costs ${cost}`),
    ...(rule.cost > 1 ? [`a hit costs ${rule.cost}`] : []),
  ];
  made.details.hidden = others.length === 0;
  const number = (rule.overrides_total ?? 0) + (rule.costs?.length ?? 0);
  say(made.summary, number ? `Other treatment: ${count(number)} pattern${number > 1 ? "s" : ""}` : "Costs");
  const shown = others.join("\n");
  if (made.list.shown !== shown) {
    made.list.shown = shown;
    made.list.replaceChildren(...others.map((other) => h("li", {}, h("code", {}, other))));
  }
}

export function page() {
  let rules = [];
  let sort = "Hits";
  const search = h("input", { type: "search", id: "search", placeholder: "name, domain or limit", autocomplete: "off", input: () => show() });
  const found = h("span", { class: "muted", role: "status" });
  const sortable = (name, made) => ({ ...made, head: h("button", { type: "button", class: "sort", click: () => { sort = name; show(); } }, name) });
  const list = table("Rules in force", [
    sortable("Rule", { title: "Rule", update: describe }),
    sortable("Hits", column("Hits", (rule) => count(hits(rule)))),
    sortable("Denied", column("Denied", (rule) => (rule.inline || !rule.shadow ? share(refused(rule), hits(rule)) : "–"))),
    sortable("In shadow", column("In shadow", (rule) => (rule.shadow ? `${count(rule.shadowed)} (${share(rule.shadowed, hits(rule))})` : "–"))),
    column("Errors", (rule) => count(rule.errors)),
    { title: "Last 15 minutes", number: true, update: (cell, rule) => {
      if (!cell.chart) {
        cell.chart = spark();
        cell.append(cell.chart.element);
      }
      cell.chart.show(rule.history);
    } },
  ], "No rule matches.");
  const failed = h("p", { class: "error", role: "alert" });
  const names = Object.keys(SORTS);

  function show() {
    const wanted = search.value.trim().toLowerCase();
    const matching = rules.filter((rule) => text(rule).includes(wanted));
    matching.sort((one, other) => SORTS[sort](one, other) || SORTS.Rule(one, other));
    list.heads.forEach((head, index) => {
      if (names[index]) put(head, "aria-sort", names[index] !== sort ? "none" : index === 0 ? "ascending" : "descending");
    });
    list.show(matching.map((rule) => ({ ...rule, id: JSON.stringify([rule.domain, rule.namespace, rule.name]) })));
    say(found, `${count(matching.length)} of ${count(rules.length)}`);
  }
  const { end } = poll(() => api("rules"), 3, (answer) => {
    ({ rules } = answer);
    say(failed, "");
    show();
  }, (failure) => say(failed, failure.message));
  const element = h("div", {},
    h("h1", {}, "Rules"),
    h("div", { class: "row filter" }, h("label", { for: "search" }, "Search"), search, found),
    failed,
    h("section", { class: "card flush", "aria-label": "Rules" }, list.element),
    h("p", { class: "muted" }, "In shadow: what a rule in shadow mode would have denied. Counts are those since the server started."));
  return { element, end };
}
