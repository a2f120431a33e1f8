//! The plot of the matrix: cost over the number of keys, one panel per key type.

use super::Results;
use super::cells::{COUNTS, KeyKind, in_words};
use super::contenders::{MEMORY, PEERS, TITLES};
use crate::paired::in_the_middle;
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const PANEL: (f64, f64) = (320.0, 250.0);
const PLOT: (f64, f64) = (225.0, 165.0);
const HEAD: f64 = 70.0;
const LEFT: f64 = 40.0;

/// From light to dark: the peers, then Memory and Atomic.
const COLOURS: [&str; TITLES.len()] = ["#a8b0ba", "#d3a86a", "#b58fb8", "#5eb3a9", "#0f766e"];

pub(super) fn plot(results: &Results) -> String {
    let mut body = String::new();
    for (number, kind) in KeyKind::ALL.into_iter().enumerate() {
        let left = 20.0 + PANEL.0 * (number % 3) as f64;
        panel(&mut body, results, kind, left, HEAD + PANEL.1 * (number / 3) as f64);
    }
    let height = HEAD + 2.0 * PANEL.1;
    for (number, title) in TITLES.iter().enumerate() {
        let x = 430.0 + 110.0 * number as f64;
        let _ = writeln!(
            body,
            "<rect x=\"{x}\" y=\"21\" width=\"14\" height=\"4\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"28\">{title}</text>",
            COLOURS[number],
            x + 20.0
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"11\">\n\
         <style>text{{fill:#1f2933}}.strong{{font-weight:600}}.soft{{fill:#6b7682}}.end{{text-anchor:end}}\
         .mid{{text-anchor:middle}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"20\" y=\"30\" font-size=\"18\" class=\"strong\">Cost over the number of keys</text>\n\
         <text x=\"20\" y=\"50\" class=\"soft\">ns per hit, one thread, median of all limits measured; less is better</text>\n\
         {body}</svg>\n"
    )
}

/// The median over all limits, for each number of keys of which there are cells.
fn series(results: &Results, kind: KeyKind, contender: usize) -> Vec<(usize, f64)> {
    let of_count = |(place, count): (usize, usize)| {
        let cells =
            results.measured.iter().filter(|m| m.cell.kind == kind && m.cell.count == count);
        let nanos = cells.map(|measured| measured.by_threads[0][contender].nanos).collect();
        Some((place, in_the_middle(nanos)?))
    };
    COUNTS.into_iter().enumerate().filter_map(of_count).collect()
}

fn panel(body: &mut String, results: &Results, kind: KeyKind, left: f64, top: f64) {
    let all: Vec<Vec<(usize, f64)>> =
        (0..TITLES.len()).map(|contender| series(results, kind, contender)).collect();
    let nanos = || all.iter().flatten().map(|(_, nanos)| *nanos);
    let largest = nanos().fold(1.0, f64::max);
    let places = results
        .measured
        .iter()
        .filter_map(|measured| COUNTS.iter().position(|count| *count == measured.cell.count));
    let last = places.max().unwrap_or(0).max(1);
    let (x0, y0) = (left + LEFT, top + 30.0 + PLOT.1);
    let x = |place: usize| x0 + PLOT.0 * place as f64 / last as f64;
    let y = |nanos: f64| y0 - PLOT.1 * nanos / largest;
    let _ = writeln!(
        body,
        "<text x=\"{left}\" y=\"{}\" font-size=\"13\" class=\"strong\">{}</text>\
         <path d=\"M{x0} {}V{y0}H{}\" fill=\"none\" stroke=\"#9aa5b1\"/>",
        top + 15.0,
        kind.title(),
        y0 - PLOT.1,
        x0 + PLOT.0
    );
    for part in [0.0, 0.5, 1.0] {
        let (value, y) = (largest * part, y(largest * part) + 4.0);
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{y:.1}\" class=\"soft end\">{value:.0}</text>",
            x0 - 5.0
        );
    }
    for (place, count) in COUNTS.into_iter().enumerate().take(last + 1) {
        let (x, text) = (x(place), in_words(count));
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{}\" class=\"soft mid\">{text}</text>",
            y0 + 15.0
        );
    }
    for (contender, points) in all.iter().enumerate() {
        let line: Vec<String> = points
            .iter()
            .map(|(place, nanos)| format!("{:.1},{:.1}", x(*place), y(*nanos)))
            .collect();
        let width = if contender >= MEMORY.max(PEERS) { 2.5 } else { 1.5 };
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            line.join(" "),
            COLOURS[contender]
        );
    }
}
