//! The plot of the servers.

use super::Results;
use super::contenders::{ON_REDIS, REDIS, Scene, TOLLGATE};
use crate::svg::{Bar, Look, Panel, picture};

pub(crate) fn plot(results: &Results) -> String {
    let mut panels: Vec<Panel> = Scene::ALL
        .iter()
        .map(|scene| {
            let rows = results.rows.iter().filter(|row| row.contender.scene == *scene);
            let bars = rows.map(|row| Bar {
                title: row.contender.title,
                look: look(row.contender.server),
                value: row.rate().unwrap_or_default() / 1e3,
            });
            Panel { title: format!("{}: 1,000/s", scene.title()), bars: bars.collect(), end: None }
        })
        .collect();
    let resp = results.idle.iter().filter(|held| held.port == "RESP");
    let held = resp.map(|held| Bar {
        title: held.server,
        look: look(held.server),
        value: held.resident / 1e6,
    });
    panels.push(Panel {
        title: "10,000 idle connections: MB".to_owned(),
        bars: held.collect(),
        end: None,
    });
    picture(
        "Servers side by side",
        "Questions answered in a second: more is better. Memory: less is better.",
        &panels,
    )
}

fn look(server: &str) -> Look {
    match server {
        TOLLGATE | ON_REDIS => Look::Ours,
        REDIS => Look::Floor,
        _ => Look::Peer,
    }
}
