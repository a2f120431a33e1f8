//! The plot of the stores.

use super::Results;
use super::contenders::Kind;
use super::in_process::{DURABLE, IMMEDIATE};
use super::scene::Scene;
use crate::svg::{Bar, Look, Panel, picture};

pub(crate) fn plot(results: &Results) -> String {
    // In-process stores are hundreds of times as fast. Their bars would dwarf all others.
    let panel = |scene: Scene, in_process: bool| {
        let rows = results.0.iter().filter(|row| row.scene == scene);
        let rows = rows.filter(|row| [DURABLE, IMMEDIATE].contains(&row.store) == in_process);
        let bars = rows.map(|row| Bar {
            title: row.short(),
            look: match row.kind {
                Kind::Ours => Look::Ours,
                Kind::Bare => Look::Floor,
                Kind::Other => Look::Peer,
            },
            value: row.rate / 1e3,
        });
        Panel { title: format!("{}: 1,000/s", scene.title()), bars: bars.collect(), end: None }
    };
    let of = |in_process| Scene::ALL.map(|scene| panel(scene, in_process));
    let panels: Vec<Panel> = of(true).into_iter().chain(of(false)).collect();
    picture(
        "Stores side by side",
        "Hits in a second: more is better. Best of several rounds.",
        &panels,
    )
}
