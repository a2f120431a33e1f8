//! Charts as SVG.

use std::fmt::Write as _;

use super::{grouped, utc};
use crate::timeline::Timeline;

const WIDTH: u64 = 960;
const HEIGHT: u64 = 200;
const BOTTOM: u64 = 20;

/// Requests over time, with the denied ones in another colour.
pub(super) fn timeline(timeline: &Timeline) -> String {
    let steps = timeline.steps();
    let most = steps.iter().map(|step| step.requests).max().unwrap_or(0).max(1);
    let count = (steps.len() as u64).max(1);
    let mut bars = String::new();
    for (index, step) in steps.iter().enumerate() {
        let index = index as u64;
        let (left, right) = (index * WIDTH / count, (index + 1) * WIDTH / count);
        let width = (right - left).saturating_sub(1).max(1);
        let height = |requests: u64| (requests * HEIGHT).div_ceil(most);
        let at = utc(timeline.start() + index * timeline.width());
        let (all, denied) = (height(step.requests), height(step.denied).min(HEIGHT));
        let _ = write!(
            bars,
            "<g><title>{at} UTC: {} requests, {} denied</title>\
             <rect class=\"requests\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{all}\"/>\
             <rect class=\"denied\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{denied}\"/></g>",
            grouped(step.requests),
            grouped(step.denied),
            HEIGHT - all,
            HEIGHT - denied,
        );
    }
    let end = timeline.start() + count * timeline.width();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Requests and denials over time\">\
         {bars}<text x=\"0\" y=\"{y}\">{}</text><text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">{} UTC</text></svg>",
        HEIGHT + BOTTOM,
        utc(timeline.start()),
        utc(end),
        y = HEIGHT + BOTTOM - 4,
    )
}

/// Bars beside each other, each with its label.
pub(super) fn histogram(bars: &[(u64, u64)]) -> String {
    const ROW: u64 = 22;
    let most = bars.iter().map(|(_, keys)| *keys).max().unwrap_or(0).max(1);
    let mut out = String::new();
    for (index, (up_to, keys)) in bars.iter().enumerate() {
        let y = index as u64 * ROW;
        let width = (keys * (WIDTH - 260)).div_ceil(most);
        let _ = write!(
            out,
            "<text x=\"130\" y=\"{text}\" text-anchor=\"end\">up to {}</text>\
             <rect class=\"requests\" x=\"140\" y=\"{y}\" width=\"{width}\" height=\"{}\"/>\
             <text x=\"{after}\" y=\"{text}\">{} keys</text>",
            grouped(*up_to),
            ROW - 4,
            grouped(*keys),
            text = y + ROW - 8,
            after = 146 + width,
        );
    }
    let height = bars.len() as u64 * ROW;
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Peak demand of the keys\">{out}</svg>"
    )
}
