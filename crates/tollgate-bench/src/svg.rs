//! The plot: one panel per figure, one bar per contender, tollgate's in colour.

use crate::contenders::{GOVERNOR, Spec};
use crate::results::{Results, Row};
use crate::scenarios::Scenario;
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const PANEL_WIDTH: f64 = 490.0;
const NAMES: f64 = 225.0;
const BARS: f64 = 195.0;
const LINE: f64 = 20.0;
const HEAD: f64 = 70.0;
const TITLE: f64 = 34.0;

/// A figure of which less is better.
struct Panel {
    title: String,
    bars: Vec<(&'static Spec, f64)>,
}

/// The whole picture.
pub(crate) fn plot(results: &Results) -> String {
    let panels = panels(results);
    let mut body = String::new();
    let mut top = HEAD;
    for pair in panels.chunks(2) {
        for (column, panel) in pair.iter().enumerate() {
            draw(&mut body, panel, 20.0 + column as f64 * PANEL_WIDTH, top);
        }
        top += pair.iter().map(Panel::height).fold(0.0, f64::max);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
         viewBox=\"0 0 {WIDTH} {top}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
         <style>.ours{{fill:#0f766e}}.peer{{fill:#a8b0ba}}.floor{{fill:#dfe3e8}}\
         text{{fill:#1f2933}}.name{{text-anchor:end}}\
         .strong{{font-weight:600}}.soft{{fill:#6b7682}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"20\" y=\"30\" font-size=\"18\" class=\"strong\">In-process limiters side by side</text>\n\
         <text x=\"20\" y=\"50\" class=\"soft\">Less is better. A bar with a gap is longer than there is room.</text>\n\
         {body}</svg>\n"
    )
}

fn panels(results: &Results) -> Vec<Panel> {
    let panel = |title: String, of: &dyn Fn(&Row) -> Option<f64>| Panel {
        title,
        bars: results.rows.iter().filter_map(|row| Some((row.spec, of(row)?))).collect(),
    };
    let mut panels: Vec<Panel> = Scenario::ALL
        .iter()
        .map(|scenario| {
            let each = if scenario.by_two() { " of each thread" } else { "" };
            let title = format!("{}: ns per hit{each}", scenario.title());
            panel(title, &|row| Some(row.speed(*scenario).nanos))
        })
        .collect();
    panels.push(panel("1 M keys: RSS bytes per key".to_owned(), &|row| Some(row.bytes?.rss)));
    panels.push(panel("cleaning 1 M stale keys: ms".to_owned(), &|row| Some(row.clean?.millis)));
    panels
}

impl Panel {
    fn height(&self) -> f64 {
        TITLE + LINE * self.bars.len() as f64 + 14.0
    }

    /// The value at the right end: the largest, but not over twice governor's, else the slowest peers
    /// would make all other bars too short to compare.
    fn end(&self) -> f64 {
        let largest = self.bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let governor = self.bars.iter().find(|(spec, _)| spec.id == GOVERNOR);
        governor.map_or(largest, |(_, value)| largest.min(2.0 * value))
    }
}

fn draw(body: &mut String, panel: &Panel, left: f64, top: f64) {
    let end = panel.end();
    let _ = writeln!(
        body,
        "<text x=\"{left}\" y=\"{}\" font-size=\"13\" class=\"strong\">{}</text>",
        top + 18.0,
        escape(&panel.title)
    );
    let start = left + NAMES;
    for (number, (spec, value)) in panel.bars.iter().enumerate() {
        let y = top + TITLE + LINE * number as f64;
        let length = BARS * (value / end).min(1.0);
        let kind = if spec.is_ours() {
            "ours"
        } else if spec.is_peer() {
            "peer"
        } else {
            "floor"
        };
        let weight = if spec.is_ours() { "strong" } else { "" };
        let base = y + LINE / 2.0 + 4.0;
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{base:.1}\" class=\"name {weight}\">{}</text>\
             <rect x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"2\" class=\"{kind}\"/>",
            start - 8.0,
            escape(spec.title),
            y + 3.0,
            length.max(1.0)
        );
        if *value > end {
            let gap = start + 0.85 * BARS;
            let _ = write!(
                body,
                "<path d=\"M{gap:.1} {:.1}l6 -20h5l-6 20z\" fill=\"#fff\"/>",
                y + LINE
            );
        }
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{base:.1}\" class=\"{weight}\">{}</text>",
            start + length + 6.0,
            label(*value)
        );
    }
}

fn label(value: f64) -> String {
    if value < 99.5 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::ALL;

    fn panel(values: &[f64]) -> Panel {
        Panel { title: String::new(), bars: ALL.iter().zip(values.iter().copied()).collect() }
    }

    #[test]
    fn the_slowest_do_not_flatten_the_others() {
        assert_eq!(panel(&[30.0, 50.0, 15.0]).end(), 50.0);
        assert_eq!(panel(&[30.0, 2500.0, 100.0]).end(), 60.0);
    }
}
