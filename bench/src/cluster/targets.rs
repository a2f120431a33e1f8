//! The goals of this project for many nodes, and whether this run met them.

use super::fleet::Mode;
use super::load::Shape;
use super::{Results, Scene};
use crate::targets::Target;

pub(crate) fn check(results: &Results) -> Vec<Target> {
    [Shape::Even, Shape::Skewed].into_iter().flat_map(|shape| overloaded(results, shape)).collect()
}

fn overloaded(results: &Results, shape: Shape) -> Vec<Target> {
    let scene = Scene { load: 400, shape };
    let of = |mode| results.of(mode, scene);
    let (Some(exact), Some(leased), Some(replicated)) =
        (of(Mode::Exact), of(Mode::Leased), of(Mode::Replicated))
    else {
        return Vec::new();
    };
    let times = leased.tally.rate() / exact.tally.rate();
    let over = leased.tally.over(leased.limit);
    let used = 100.0 * leased.tally.used(leased.limit);
    let beyond = 100.0 * replicated.tally.over(replicated.limit) as f64 / replicated.limit as f64;
    let title = scene.title().to_lowercase();
    let target = |goal: &str, reached: String, met| Target {
        goal: format!("{title}: {goal}"),
        reached,
        met: Some(met),
    };
    vec![
        target("leased at least 25x exact", format!("{times:.0}x"), times >= 25.0),
        target("leased admits nothing beyond the limit", format!("{over}"), over == 0),
        target("leased uses at least 98 % of it", format!("{used:.1} %"), used >= 98.0),
        target("replicated admits less than 2 % beyond it", format!("{beyond:.2} %"), beyond < 2.0),
    ]
}
