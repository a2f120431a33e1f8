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

/// One figure among several.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    /// The value at the right end, if that is not the largest.
    pub(crate) end: Option<f64>,
}

pub(crate) struct Bar {
    pub(crate) title: &'static str,
    pub(crate) look: Look,
    pub(crate) value: f64,
}

/// The colour of a bar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Ours,
    Peer,
    /// The lower bound of the machine.
    Floor,
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::Floor => "floor",
        }
    }
}

/// The plot of in-process limiters.
pub(crate) fn plot(results: &Results) -> String {
    picture(
        "In-process limiters side by side",
        "Less is better. A bar with a gap is longer than there is room.",
        &panels(results),
    )
}

/// A whole picture.
pub(crate) fn picture(title: &str, note: &str, panels: &[Panel]) -> String {
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
         <text x=\"20\" y=\"30\" font-size=\"18\" class=\"strong\">{title}</text>\n\
         <text x=\"20\" y=\"50\" class=\"soft\">{note}</text>\n\
         {body}</svg>\n"
    )
}

fn panels(results: &Results) -> Vec<Panel> {
    let panel = |title: String, of: &dyn Fn(&Row) -> Option<f64>| {
        let value = |row: &Row| Some((row.spec, of(row)?));
        let values: Vec<_> = results.rows.iter().filter_map(value).collect();
        Panel { title, end: end(&values), bars: values.into_iter().map(bar).collect() }
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

    fn end(&self) -> f64 {
        let largest = || self.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        self.end.unwrap_or_else(largest)
    }
}

fn bar((spec, value): (&'static Spec, f64)) -> Bar {
    let look = if spec.is_ours() {
        Look::Ours
    } else if spec.is_peer() {
        Look::Peer
    } else {
        Look::Floor
    };
    Bar { title: spec.title, look, value }
}

/// The value at the right end: the largest, but at most twice governor's. Otherwise the slowest
/// contenders would make all other bars too short to compare.
fn end(values: &[(&'static Spec, f64)]) -> Option<f64> {
    let largest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let governor = values.iter().find(|(spec, _)| spec.id == GOVERNOR);
    governor.map(|(_, value)| largest.min(2.0 * value))
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
    for (number, Bar { title, look, value }) in panel.bars.iter().enumerate() {
        let y = top + TITLE + LINE * number as f64;
        let length = BARS * (value / end).min(1.0);
        let kind = look.class();
        let weight = if *look == Look::Ours { "strong" } else { "" };
        let base = y + LINE / 2.0 + 4.0;
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{base:.1}\" class=\"name {weight}\">{}</text>\
             <rect x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"2\" class=\"{kind}\"/>",
            start - 8.0,
            escape(title),
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

    fn end_of(values: &[f64]) -> Option<f64> {
        end(&ALL.iter().zip(values.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn the_slowest_do_not_flatten_the_others() {
        assert_eq!(end_of(&[30.0, 50.0, 15.0]), Some(50.0));
        assert_eq!(end_of(&[30.0, 2500.0, 100.0]), Some(60.0));
    }
}
