//! Charts as SVG. In a page they take its colours; alone they bring their own.

use std::fmt::Write as _;

use crate::timeline::{Axis, Timeline};
use crate::{escaped, grouped};

const WIDTH: u64 = 960;
const HEIGHT: u64 = 200;
/// Room for the scale above the bars and for the times below them.
const TOP: u64 = 20;
const BOTTOM: u64 = 20;

const COLOURS: &str = "<style>text{fill:#5b6575;font:12px system-ui,sans-serif}.requests{fill:#9fb4d6}.denied{fill:#c8372d}\
@media(prefers-color-scheme:dark){text{fill:#98a2b3}.requests{fill:#47608a}.denied{fill:#ef6a5f}}</style>";

/// Requests over time, with the denied ones in another colour.
///
/// ```
/// use tollgate_report::{Axis, Timeline, timeline_chart};
/// let mut timeline = Timeline::default();
/// timeline.count(0, true);
/// assert!(timeline_chart(&timeline, Axis::Elapsed).contains("1 requests, 1 denied"));
/// ```
#[must_use]
pub fn timeline_chart(timeline: &Timeline, axis: Axis) -> String {
    format!(
        "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Requests and denials over time\">{}</svg></div>",
        TOP + HEIGHT + BOTTOM,
        timeline_bars(timeline, axis),
    )
}

fn timeline_bars(timeline: &Timeline, axis: Axis) -> String {
    let steps = timeline.steps();
    let most = steps.iter().map(|step| step.requests).max().unwrap_or(0).max(1);
    let count = (steps.len() as u64).max(1);
    let floor = TOP + HEIGHT;
    let mut bars = format!(
        "<text x=\"0\" y=\"14\">{} requests in {}</text>",
        grouped(most),
        crate::span(timeline.width())
    );
    for (index, step) in steps.iter().enumerate() {
        let index = index as u64;
        let (left, right) = (index * WIDTH / count, (index + 1) * WIDTH / count);
        let width = (right - left).saturating_sub(1).max(1);
        let height = |requests: u64| (requests * HEIGHT).div_ceil(most).min(HEIGHT);
        let at = axis.label(timeline, timeline.start() + index * timeline.width());
        let (all, denied) = (height(step.requests), height(step.denied));
        let _ = write!(
            bars,
            "<g><title>{at}: {} requests, {} denied</title>\
             <rect class=\"requests\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{all}\"/>\
             <rect class=\"denied\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{denied}\"/></g>",
            grouped(step.requests),
            grouped(step.denied),
            floor - all,
            floor - denied,
        );
    }
    let end = timeline.start() + count * timeline.width();
    let _ = write!(
        bars,
        "<text x=\"0\" y=\"{y}\">{}</text><text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">{}</text>",
        axis.label(timeline, timeline.start()),
        axis.label(timeline, end),
        y = floor + BOTTOM - 4,
    );
    bars
}

/// Charts of several timelines, each with its title, in one file.
///
/// ```
/// use tollgate_report::{Axis, Timeline, standalone};
/// let svg = standalone(&[("10/second", &Timeline::default())], Axis::Elapsed);
/// assert!(svg.starts_with("<svg xmlns="));
/// ```
#[must_use]
pub fn standalone(charts: &[(&str, &Timeline)], axis: Axis) -> String {
    const GAP: u64 = 40;
    let chart = TOP + HEIGHT + BOTTOM + GAP;
    let mut body = String::new();
    for (index, (title, timeline)) in charts.iter().enumerate() {
        let _ = write!(
            body,
            "<text x=\"0\" y=\"{}\" font-weight=\"600\">{}</text><g transform=\"translate(0 {})\">{}</g>",
            index as u64 * chart + 20,
            escaped(title),
            index as u64 * chart + 24,
            timeline_bars(timeline, axis),
        );
    }
    let height = charts.len() as u64 * chart;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">{COLOURS}{body}</svg>\n"
    )
}

/// Draws one bar below the other: how many keys have a peak of up to each number of units.
///
/// ```
/// assert!(tollgate_report::histogram(&[(1, 20), (2, 5)]).contains("up to 2"));
/// ```
#[must_use]
pub fn histogram(bars: &[(u64, u64)]) -> String {
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
        "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Peak demand of the keys\">{out}</svg></div>"
    )
}
