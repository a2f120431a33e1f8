// The store, what it reports of itself, and the other nodes.

import { api, poll } from "./api.js";
import { card, column, count, facts, h, put, say, span, table } from "./dom.js";
import { storeHealth } from "./overview.js";

export function page() {
  const health = storeHealth();
  const [bound, showBound] = facts("Admitted beyond a limit", "This node");
  const why = h("p", { class: "note" });
  const [leases, showLeases] = facts("Keys with allotments", "Units held", "Largest allotment of a key", "Average draw");
  const leaseCard = card("Leases", leases, h("p", { class: "note" }, "Units that this node drew from the store and may spend without asking."));
  const nodes = table("Other nodes", [
    column("Node", (node) => node.name, false),
    { title: "State", update: (cell, node) => {
      if (!cell.pill) cell.append(cell.pill = h("span"));
      put(cell.pill, "class", `pill ${node.missing ? "bad" : "good"}`);
      say(cell.pill, node.missing ? "missing" : "present");
    } },
    column("Silent for", (node) => span(node.silence_ms / 1000)),
  ], "This store has no nodes that know each other.");
  const figures = table("Figures of the store", [
    column("Figure", (figure) => figure.name.replaceAll("_", " "), false),
    column("Value", (figure) => count(figure.value)),
    column("Meaning", (figure) => figure.help, false),
  ], "This store reports no figures of its own.");
  const failed = h("p", { class: "error", role: "alert" });
  const { end } = poll(() => api("store"), 2, (store) => {
    say(failed, "");
    health.update(store.health);
    showBound({
      "Admitted beyond a limit": store.error_bound.units ? `at most ${count(store.error_bound.units)} units` : "nothing",
      "This node": store.node ?? "has no name",
    });
    say(why, store.error_bound.text);
    leaseCard.hidden = !store.leases;
    if (store.leases) {
      const units = (number) => (number === null ? "–" : count(number));
      showLeases({
        "Keys with allotments": units(store.leases.keys),
        "Units held": units(store.leases.held_units),
        "Largest allotment of a key": units(store.leases.largest_units),
        "Average draw": units(store.leases.average_draw_units),
      });
    }
    nodes.show(store.nodes.map((node) => ({ ...node, id: node.name })));
    figures.show(store.figures.map((figure) => ({ ...figure, id: figure.name })));
  }, (failure) => say(failed, failure.message));
  const element = h("div", {},
    h("h1", {}, "Store and nodes"), failed,
    h("div", { class: "columns" }, health.element, h("div", {}, card("Error bound", bound, why), leaseCard)),
    card("Nodes", nodes.element),
    card("Figures", figures.element));
  return { element, end };
}
