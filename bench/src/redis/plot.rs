//! The plot of the Redis bench.

use super::Results;
use super::contenders::{Kind, Scene};
use super::rounds::Row;
use crate::svg::{Bar, Look, Panel, picture};

pub(crate) fn plot(results: &Results) -> String {
    let rate = |row: &Row| Some(row.rate / 1e3);
    let panels = [
        panel(results, "hot key, 64 in flight: thousand hits per second", &[Scene::Hot], rate),
        panel(results, "1,000 keys, 64 in flight: thousand hits per second", &[Scene::Keys], rate),
        panel(results, "hot key, 64 in flight: client CPU µs per hit", &[Scene::Hot], |row| {
            Some(row.client)
        }),
        panel(
            results,
            "µs of the script on the server",
            &[Scene::Algorithm, Scene::Policy],
            |row| row.script,
        ),
        Panel {
            title: "bytes per key, MEMORY USAGE".to_owned(),
            bars: results
                .bytes
                .iter()
                .filter(|bytes| !bytes.title.contains("100 hits"))
                .map(|bytes| {
                    let plain = bytes.title.starts_with("INCR");
                    let look = if plain { Look::Peer } else { Look::Ours };
                    Bar { title: bytes.title, look, value: bytes.usage }
                })
                .collect(),
            end: None,
        },
    ];
    picture(
        "tollgate on Redis, side by side",
        "Best of several rounds, contenders in turn.",
        &panels,
    )
}

fn panel(results: &Results, title: &str, scenes: &[Scene], of: fn(&Row) -> Option<f64>) -> Panel {
    let rows = results.rows.iter().filter(|row| scenes.contains(&row.scene));
    let bars = rows.filter_map(|row| {
        let look = match row.kind {
            Kind::Ours => Look::Ours,
            Kind::Peer => Look::Peer,
            Kind::Yardstick => Look::Floor,
        };
        Some(Bar { title: row.title, look, value: of(row)? })
    });
    Panel { title: title.to_owned(), bars: bars.collect(), end: None }
}
