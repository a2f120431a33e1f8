//! `/api/v1/store`: the store and the other nodes.

use serde_json::{Value, json};
use tollgate::shared::{SharedStore as _, StoreReport};

use super::super::{Admin, metrics};

/// The health of the store, which is part of the overview.
pub(super) fn health(admin: &Admin) -> Value {
    let store = admin.service.store();
    let guard = store.guard();
    let calls: serde_json::Map<_, _> = metrics::store_calls(&guard.stats())
        .into_iter()
        .map(|(outcome, count)| (outcome.to_owned(), count.into()))
        .collect();
    let stats = guard.stats();
    json!({
        "url": admin.about.store,
        "deadline_us": u64::try_from(guard.deadline().as_micros()).unwrap_or(u64::MAX),
        "breakers": guard.lanes(),
        "open_breakers": guard.open_breakers(),
        "opened_total": stats.opened,
        "calls": calls,
        "warnings": store.report().warnings,
    })
}

/// The store, its figures, and the nodes of its fleet.
pub(super) fn all(admin: &Admin) -> Value {
    let StoreReport { figures, nodes, .. } = admin.service.store().report();
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|it| it.value);
    let leases = value("lease_keys").map(|keys| {
        let (draws, drawn) = (value("lease_draws_total"), value("lease_drawn_units_total"));
        let average = draws.zip(drawn).and_then(|(draws, drawn)| drawn.checked_div(draws));
        json!({
            "keys": keys,
            "held_units": value("lease_held_units"),
            "largest_units": value("lease_largest_units"),
            "average_draw_units": average,
        })
    });
    let bound = value("replica_bound_units");
    let figures: Vec<_> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name,
                "help": figure.help,
                "value": figure.value,
                "may_fall": figure.may_fall,
            })
        })
        .collect();
    let silence = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| {
            json!({
                "name": node.name,
                "silence_ms": silence(node.silence),
                "missing": node.is_missing,
            })
        })
        .collect();
    json!({
        "health": health(admin),
        "node": admin.about.node,
        "figures": figures,
        "leases": leases,
        "nodes": nodes,
        // Units that may have been admitted beyond a limit.
        "error_bound": { "units": bound.unwrap_or(0), "text": bound_in_words(&admin.about.store) },
    })
}

fn bound_in_words(url: &str) -> &'static str {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        _ if scheme.starts_with("replicated+") => {
            "each node counts alone and hears of the others a little later: so many units may have been admitted beyond a limit"
        }
        _ if scheme.starts_with("leased+") => {
            "nothing is admitted beyond a limit; units in allotments can be spent by their node alone until they end"
        }
        "memory" | "atomic" | "durable" => "this process decides alone and counts every hit",
        _ => "the store decides every hit in one step; without it, on_failure decides",
    }
}
