// The overview: what the server does now, and its last 15 minutes.

import { VERDICTS, follow } from "./api.js";
import { live } from "./chart.js";
import { bytes, card, clock, column, count, day, facts, h, latency, put, rate, say, share, span, table } from "./dom.js";

const SECONDS = 900;

const total = (second) => VERDICTS.reduce((sum, name) => sum + second[name], 0);

function sum(counts) {
  const all = Object.fromEntries(VERDICTS.map((name) => [name, 0]));
  for (const second of counts) for (const name of VERDICTS) all[name] += second[name];
  return all;
}

function tile(name) {
  const value = h("span", { class: "value" }, "–");
  const more = h("span", { class: "more" }, "\u00a0");
  return { element: h("div", { class: "tile" }, h("span", { class: "name" }, name), value, more), value, more };
}

/** The last 15 minutes by the minute, for those who cannot see the chart. */
function minutes(counts, newest) {
  const rows = [];
  for (let end = counts.length; end > 0; end -= 60) {
    rows.push([clock(newest - (counts.length - end)), sum(counts.slice(Math.max(0, end - 60), end))]);
  }
  return h("table", {},
    h("caption", { class: "hidden" }, "Decisions by the minute"),
    h("thead", {}, h("tr", {}, ["minute until", ...VERDICTS].map((name, index) => h("th", { scope: "col", class: index ? "number" : "" }, name)))),
    h("tbody", {}, rows.map(([at, all]) => h("tr", {}, h("th", { scope: "row" }, at), VERDICTS.map((name) => h("td", { class: "number" }, count(all[name])))))));
}

function configuration() {
  const pill = h("span", { class: "pill" });
  const [list, show] = facts("Files", "In force since", "Reloads", "Failed");
  const problems = h("ul", { class: "problems" });
  const restart = h("p", { class: "muted" });
  let shown = "";
  const update = ({ config }) => {
    const { reloads } = config;
    const ok = config.in_force;
    put(pill, "class", `pill ${ok ? "good" : "bad"}`);
    say(pill, ok ? "in force" : reloads.error ? "last reload failed" : "needs a restart");
    show({
      "Files": reloads.files.join(", ") || "none: limits come with requests",
      "In force since": day(reloads.last_success),
      "Reloads": count(reloads.succeeded),
      "Failed": reloads.failed ? `${count(reloads.failed)}, last at ${day(reloads.last_failure)}` : "0",
    });
    const text = JSON.stringify(reloads.problems);
    if (text !== shown) {
      shown = text;
      problems.replaceChildren(...reloads.problems.map(({ file, line, column: at, message }) =>
        h("li", {}, h("code", { class: "place" }, line ? `${file}:${line}:${at}` : file), h("code", {}, message))));
    }
    problems.hidden = reloads.problems.length === 0;
    say(restart, reloads.needs_restart.length ? `Take effect after a restart: ${reloads.needs_restart.join(", ")}` : "");
    restart.hidden = reloads.needs_restart.length === 0;
  };
  const element = card("Configuration", pill, problems, restart, list);
  return { element, update };
}

export function storeHealth() {
  const pill = h("span", { class: "pill" });
  const [list, show] = facts("URL", "Breakers", "Answered", "From remembered denials", "Deadline misses", "Unavailable or refused", "Decided without the store");
  const warnings = h("ul", { class: "problems" });
  const update = (store) => {
    const { calls } = store;
    const isOpen = store.open_breakers > 0;
    const isBad = isOpen || store.warnings.length > 0;
    put(pill, "class", `pill ${isBad ? "bad" : "good"}`);
    say(pill, isOpen ? "breaker open: not asked now" : isBad ? "warnings" : "answers");
    show({
      "URL": store.url,
      "Breakers": `${store.open_breakers} of ${store.breakers} open, opened ${count(store.opened_total)} times`,
      "Answered": count(calls.answered),
      "From remembered denials": count(calls.remembered),
      "Deadline misses": `${count(calls.lost)} (deadline ${span(store.deadline_us / 1e6)})`,
      "Unavailable or refused": count(calls.unavailable + calls.refused + calls.skipped + calls.shed),
      "Decided without the store": `${count(calls.fallback)} local, ${count(calls.failed_open)} open, ${count(calls.failed_closed)} closed`,
    });
    if (warnings.children.length !== store.warnings.length) warnings.replaceChildren(...store.warnings.map(() => h("li")));
    store.warnings.forEach((text, index) => say(warnings.children[index], text));
    warnings.hidden = store.warnings.length === 0;
  };
  return { element: card("Store", pill, warnings, list), update };
}

export function page() {
  const tiles = { now: tile("Decisions per second"), denied: tile("Denied, last minute"), p99: tile("99 % of requests, HTTP"), open: tile("Connections"), uptime: tile("Uptime") };
  const chart = live(VERDICTS, SECONDS, 260);
  const text = h("div", { class: "scroll" });
  const details = h("details", { toggle: () => update() }, h("summary", {}, "As a table, by the minute"), text);
  const ports = table("Ports", [
    column("Port", (port) => port.port, false),
    column("Requests/s", (port) => rate(port.requests / 10)),
    column("p50", (port) => latency(port.p50_us, port.requests)),
    column("p99", (port) => latency(port.p99_us, port.requests)),
    column("Connections", (port) => count(port.connections)),
    column("Refused", (port) => count(port.refused_total)),
    column("Wrong", (port) => count(port.wrong_requests_total)),
  ], "No ports.");
  const config = configuration();
  const store = storeHealth();
  let last = null;
  let minute = -1;

  function update(state = last) {
    if (!state) return;
    last = state;
    const { overview, counts, newest } = state;
    const ten = counts.slice(-10);
    const now = ten.length ? ten.reduce((all, second) => all + total(second), 0) / ten.length : 0;
    const recent = sum(counts.slice(-60));
    const refused = recent.denied + recent.blocked + recent.banned;
    const http = overview.ports.find(({ port }) => port === "http");
    say(tiles.now.value, rate(now));
    say(tiles.now.more, `${count(total(overview.totals))} since the start`);
    say(tiles.denied.value, share(refused, total(recent)));
    say(tiles.denied.more, `${count(refused)} of ${count(total(recent))}`);
    say(tiles.p99.value, latency(http.p99_us, http.requests));
    say(tiles.p99.more, `half: ${latency(http.p50_us, http.requests)}`);
    say(tiles.open.value, count(overview.ports.reduce((all, { connections }) => all + connections, 0)));
    say(tiles.open.more, `memory ${bytes(overview.memory_bytes)}`);
    say(tiles.uptime.value, span(overview.uptime_seconds));
    say(tiles.uptime.more, `version ${overview.version}`);
    chart.show({ newest, counts });
    const here = Math.floor(newest / 15);
    if (here !== minute) {
      minute = here;
      const all = sum(counts);
      chart.describe(`Decisions per second in the last ${Math.ceil(counts.length / 60)} minutes: ${rate(now)} now, ${count(total(all))} in all, ${count(all.denied)} denied. The arrow keys show single seconds; a table follows.`);
    }
    if (details.open) text.replaceChildren(minutes(counts, newest));
    ports.show(overview.ports.map((port) => ({ ...port, id: port.port })));
    config.update(overview);
    store.update(overview.store);
  }

  const element = h("div", {},
    h("h1", {}, "Overview"),
    h("div", { class: "tiles" }, Object.values(tiles).map(({ element: one }) => one)),
    card("Decisions per second", chart.element, details),
    card("Ports", ports.element, h("p", { class: "note" }, "Requests and response times are those of the last ten seconds.")),
    h("div", { class: "columns" }, store.element, config.element));
  return { element, end: follow(update) };
}
