//! The goals of this project for its stores, and whether this run met them.

use super::Results;
use super::contenders::Kind;
use super::etcd::ETCD;
use super::in_process::{DURABLE, IMMEDIATE};
use super::memcached::MEMCACHED;
use super::postgres::POSTGRES;
use super::scene::Scene;
use crate::targets::Target;

const BOTH_OF_64: &[Scene] = &[Scene::ALL_HOT, Scene::ALL_MANY];

/// Hits on a hot key are merged, so that scene is compared separately.
const WITHOUT_MERGING: &[Scene] = &[Scene::ONE_HOT, Scene::ONE_MANY, Scene::ALL_MANY];

/// Store, scenes, the least multiple of the bare call.
const SPEED: [(&str, &[Scene], f64); 5] = [
    (POSTGRES, BOTH_OF_64, 10.0),
    (MEMCACHED, &Scene::ALL, 0.7),
    (DURABLE, &Scene::ALL, 0.5),
    (IMMEDIATE, &Scene::ALL, 0.5),
    (ETCD, WITHOUT_MERGING, 0.8),
];

pub(crate) fn check(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for (store, scenes, times) in SPEED {
        targets.extend(scenes.iter().filter_map(|scene| speed(results, store, *scene, times)));
    }
    targets.extend(merged(results));
    targets
}

fn speed(results: &Results, store: &str, scene: Scene, times: f64) -> Option<Target> {
    let (ours, bare) =
        (results.of(store, Kind::Ours, scene)?, results.of(store, Kind::Bare, scene)?);
    let reached = ours.rate / bare.rate;
    Some(Target {
        goal: format!("{store}, {}: at least {times}x {}", lower(scene), bare.title),
        reached: format!("{reached:.2}x"),
        met: Some(reached >= times),
    })
}

fn merged(results: &Results) -> Option<Target> {
    let of = |scene| results.of(ETCD, Kind::Ours, scene).map(|row| row.rate);
    let reached = of(Scene::ALL_HOT)? / of(Scene::ONE_HOT)?;
    Some(Target {
        goal: format!("{ETCD}: 64 callers on one key not slower than one"),
        reached: format!("{reached:.2}x"),
        met: Some(reached >= 1.0),
    })
}

fn lower(scene: Scene) -> String {
    scene.title().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    fn row(kind: Kind, scene: Scene, rate: f64) -> Row {
        Row { store: ETCD, title: "tollgate", kind, scene, rate, allowed: 1.0, waits: [None; 2] }
    }

    #[test]
    fn ratios_compare_with_the_bare_call_of_the_same_scene() {
        let results = Results(vec![
            row(Kind::Bare, Scene::ONE_HOT, 100.0),
            row(Kind::Ours, Scene::ONE_HOT, 79.0),
            row(Kind::Bare, Scene::ALL_MANY, 100.0),
            row(Kind::Ours, Scene::ALL_MANY, 80.0),
            row(Kind::Ours, Scene::ALL_HOT, 78.0),
        ]);
        let targets = check(&results);
        let seen: Vec<_> = targets.iter().map(|t| (&*t.reached, t.met)).collect();
        let expected = [("0.79x", Some(false)), ("0.80x", Some(true)), ("0.99x", Some(false))];
        assert_eq!(seen, expected);
    }
}
