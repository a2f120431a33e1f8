// The busiest, the most denied and the banned keys, and the page of one key.

import { api, poll, state } from "./api.js";
import { bar } from "./chart.js";
import { announce, clock, column, count, h, put, say, span, table, unnamed } from "./dom.js";

/** The address of the page of a key. What follows the # is never sent to a server. */
export function link({ namespace, domain, rule, id }) {
  return `#/key/${encodeURIComponent(JSON.stringify([namespace, domain, rule, id]))}`;
}

const where = ({ namespace, domain, rule }) => [domain && `domain ${domain}`, namespace && `namespace ${namespace}`, rule || "a limit of a request"].filter(Boolean).join(" · ");

function name(cell, row) {
  const isLink = row.id !== null && (row.rule || row.domain);
  const target = isLink ? link(row) : "";
  if (cell.target !== target || cell.shown !== row.key) {
    cell.target = target;
    cell.shown = row.key;
    cell.replaceChildren(isLink ? h("a", { href: target }, row.key || "(empty)") : h("span", {}, row.key || "(empty)"));
  }
}

function list(title) {
  const made = table(title, [
    { title: "Key", update: name },
    column("Rule", where, false),
    column("About", (row) => count(row.count)),
    column("Too high by at most", (row) => count(row.over)),
  ], "No keys yet.");
  const show = (rows) => made.show(rows.map((row) => ({ ...row, rowId: JSON.stringify([row.domain, row.namespace, row.rule, row.key]) })));
  return { element: h("section", { class: "card" }, h("h2", {}, title), made.element), show };
}

/** The banned keys. A banned key is lifted on its own page, by a reset. */
function bans() {
  const made = table("Banned keys", [
    { title: "Key", update: name },
    column("Rule", where, false),
    column("Ends in", (row) => span(row.ends_in_us / 1e6)),
  ], "No key is banned.");
  const more = h("p", { class: "muted" }, "Bans that this server has answered with. The reset on the page of a key lifts its ban.");
  const show = (answer) => made.show(answer.bans.map((row) => ({ ...row, rowId: JSON.stringify([row.domain, row.namespace, row.rule, row.key]) })));
  return { element: h("section", { class: "card" }, h("h2", {}, "Banned"), made.element, more), show };
}

export function page() {
  const banned = bans();
  const [busiest, denied] = [list("Busiest"), list("Most denied")];
  const failed = h("p", { class: "error", role: "alert" });
  const { end } = poll(() => api("keys?top=25"), 3, (answer) => {
    say(failed, "");
    busiest.show(answer.busiest);
    denied.show(answer.denied);
  }, (failure) => say(failed, failure.message));
  const polled = poll(() => api("bans?top=25"), 3, banned.show, (failure) => say(failed, failure.message));
  const form = h("form", { class: "card row filter", submit: (event) => {
    event.preventDefault();
    const { rule, namespace, key } = Object.fromEntries(new FormData(form));
    location.hash = link({ namespace, domain: "", rule, id: key });
  } },
  h("h2", {}, "Look up a key"),
  h("label", {}, "Rule or limit", h("input", { name: "rule", required: true, autocomplete: "off", placeholder: "login" })),
  h("label", {}, "Namespace", h("input", { name: "namespace", autocomplete: "off" })),
  h("label", {}, "Key", h("input", { name: "key", required: true, autocomplete: "off", spellcheck: "false" })),
  h("button", { type: "submit", class: "primary" }, "Show"));
  const element = h("div", {},
    h("h1", {}, "Keys"),
    h("p", { class: "muted" }, "The counts are estimates since the server started: a sketch of fixed size holds them. Keys are personal data."),
    failed, form,
    h("div", { class: "columns" }, busiest.element, denied.element), banned.element);
  return { element, end: () => { end(); polled.end(); } };
}

const dialog = document.getElementById("confirm");
let answer = () => {};
dialog.addEventListener("close", () => {
  // The event of an earlier question may come after the next question was opened.
  if (!dialog.open) answer(dialog.returnValue === "yes");
});

/** Asks for a confirmation. Resolves to whether it was given. */
function confirmed(title, text, yes) {
  answer(false);
  say(document.getElementById("confirm-title"), title);
  say(document.getElementById("confirm-text"), text);
  say(document.getElementById("confirm-yes"), yes);
  return new Promise((resolve) => {
    answer = resolve;
    dialog.returnValue = "no";
    dialog.showModal();
  });
}

function limitRow(limit) {
  const text = h("code", {}, unnamed(limit.text));
  const admits = h("p", { class: "words" }, limit.admits);
  const meter = bar(limit.text);
  const used = h("span", { class: "figure" });
  const free = h("span", { class: "figure" });
  const fresh = h("span", { class: "figure" });
  const from = h("span", { class: "figure" });
  const update = (now) => {
    meter.show(now.used, now.limit);
    say(used, now.ban
      ? `${count(now.used)} of ${count(now.limit)} denials`
      : `${count(now.used)} of ${count(now.limit)} in use, ${count(now.remaining)} remaining`);
    say(free, now.ban && !now.allowed ? `banned for ${span(now.retry_after_us / 1e6)}` : now.ban ? "not banned" : now.allowed ? "a hit passes now" : now.retry_after_us === null ? "a hit never passes" : `free in ${span(now.retry_after_us / 1e6)}`);
    say(fresh, now.reset_after_us ? `unused in ${span(now.reset_after_us / 1e6)}` : "unused");
    say(from, `from: ${now.source.replace("_", " ")}${now.bound ? `, at most ${count(now.bound)} too few` : ""}`);
  };
  const element = h("li", { class: "limit" }, text, admits, meter.element, h("div", { class: "row spread" }, used, free, fresh, from));
  return { element, update, text: limit.text };
}

export function keyPage(argument) {
  let [namespace, domain, rule, id] = ["", "", "", ""];
  try {
    [namespace, domain, rule, id] = JSON.parse(decodeURIComponent(argument));
  } catch { /* A broken link: the server says what is missing. */ }
  const body = { namespace, domain, rule, key: id };
  const title = Array.isArray(id) ? id.join(", ") : id;
  const pill = h("span", { class: "pill" });
  const reasons = h("ul", { class: "reasons", "aria-live": "polite" });
  const limits = h("ul", { class: "limits" });
  const recent = h("ol", { class: "recent" });
  const none = h("p", { class: "muted" }, "None since this page was opened. They are noted only while somebody looks.");
  const failed = h("p", { class: "error", role: "alert" });
  const units = h("input", { type: "number", id: "units", min: 0, step: 1, value: 1, inputmode: "numeric" });
  let rows = [];
  let shown = "";

  const show = (key) => {
    say(failed, "");
    const good = key.verdict === "allowed" || key.verdict === "exempt";
    put(pill, "class", `pill ${good ? "good" : key.verdict === "shadowed" ? "warn" : "bad"}`);
    say(pill, key.verdict === "allowed" ? "a hit passes now" : key.verdict === "shadowed" ? "denied in shadow" : key.verdict);
    if (reasons.children.length !== key.reasons.length) reasons.replaceChildren(...key.reasons.map(() => h("li")));
    key.reasons.forEach((text, index) => say(reasons.children[index], unnamed(text)));
    if (rows.map((row) => row.text).join() !== key.limits.map((limit) => limit.text).join()) {
      rows = key.limits.map(limitRow);
      limits.replaceChildren(...rows.map((row) => row.element));
    }
    rows.forEach((row, index) => row.update(key.limits[index]));
    const text = JSON.stringify(key.recent);
    if (text !== shown) {
      shown = text;
      recent.replaceChildren(...key.recent.map(({ at_us: at, verdict }) =>
        h("li", {}, h("i", { class: `mark ${verdict}`, "aria-hidden": "true" }), h("span", { class: "figure" }, clock(at / 1e6)), verdict)));
    }
    none.hidden = key.recent.length > 0;
  };
  const polling = poll(() => api("key", body), 1, show, (failure) => say(failed, failure.message));

  const act = async (action, question, yes, more = {}) => {
    if (!await confirmed(question, `Key ${title}, rule ${rule || domain}. The action is logged with the name of your token.`, yes)) return;
    try {
      show(await api(`actions/${action}`, { ...body, ...more }));
      announce(`${action}: done`);
    } catch (failure) {
      say(failed, failure.message);
    }
  };
  const number = () => Math.max(0, Math.floor(Number(units.value) || 0));
  const mayOperate = state.session?.scope === "operate";
  const actions = h("section", { class: "card" }, h("h2", {}, "Actions"),
    mayOperate
      ? h("div", { class: "row filter" },
        h("button", { type: "button", class: "danger", id: "reset", click: () => act("reset", "Reset this key?", "Reset") }, "Reset"),
        h("label", { for: "units" }, "Units"), units,
        h("button", { type: "button", id: "refund", click: () => act("refund", `Give back ${number()} units?`, "Give back", { units: number() }) }, "Give back"),
        h("button", { type: "button", id: "set", click: () => act("set", `Set the units in use to ${number()}?`, "Set", { units: number() }) }, "Set in use"))
      : h("p", { class: "muted" }, "Your token may only read. Changing counts needs the scope operate."));
  const element = h("div", {},
    h("p", {}, h("a", { href: "#/keys" }, "← Keys")),
    h("h1", { class: "key" }, title || "(empty)"),
    h("div", { class: "row" }, h("span", { class: "muted" }, where({ namespace, domain, rule })), pill),
    failed, reasons,
    h("section", { class: "card" }, h("h2", {}, "Limits"), limits),
    actions,
    h("section", { class: "card" }, h("h2", {}, "Recent decisions"), none, recent));
  return { element, end: polling.end };
}
