//! The picture: a panel for each mode, a bar for each tenth of a second, a step for each second.

use std::fmt::Write;

use super::{AGAIN, CUT, END, KILLED, LIMIT, MENDED};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;

/// The top of a panel, in hits per second.
const MOST: f64 = 2.4 * LIMIT as f64;

pub(crate) fn draw(panels: &[(&str, Vec<u64>)]) -> String {
    let height = TOP + panels.len() as f64 * (HEIGHT + TOP);
    let width = LEFT + WIDTH + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\">Admitted in each second, of a limit of {LIMIT}; four times as much is offered</text>\n"
    );
    for (index, (mode, admitted)) in panels.iter().enumerate() {
        let top = TOP + index as f64 * (HEIGHT + TOP);
        panel(&mut svg, top, mode, admitted);
    }
    svg.push_str("</svg>\n");
    svg
}

fn x(tenths: u64) -> f64 {
    LEFT + WIDTH * tenths as f64 / END as f64
}

fn panel(svg: &mut String, top: f64, mode: &str, admitted: &[u64]) {
    let y = |hits: f64| top + HEIGHT * (1.0 - hits.min(MOST) / MOST);
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{mode}</text>",
        top - 6.0
    );
    for (from, to, what) in [(KILLED, AGAIN, "a node is dead"), (CUT, MENDED, "a node is cut off")]
    {
        let (left, wide) = (x(from), x(to) - x(from));
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\" fill=\"#f3e9dc\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#8a5a20\">{what}</text>",
            left + 6.0,
            top + 16.0
        );
    }
    for (second, tenths) in admitted.chunks(10).enumerate() {
        let sum: u64 = tenths.iter().sum();
        let colour = if sum > LIMIT { "#c0392b" } else { "#2c7fb8" };
        let (left, wide, high) = (x(second as u64 * 10), x(10) - x(0), y(sum as f64));
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sum}</text>",
            left + 3.0,
            wide - 6.0,
            top + HEIGHT - high,
            left + wide / 2.0,
            high - 5.0
        );
    }
    for hits in [0, LIMIT, 2 * LIMIT] {
        let (at, dash) =
            (y(hits as f64), if hits == LIMIT { "" } else { " stroke-dasharray=\"2 4\"" });
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"black\"{dash}/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{hits}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for second in (0..=END / 10).step_by(2) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{second} s</text>",
            x(second * 10),
            top + HEIGHT + 18.0
        );
    }
}
