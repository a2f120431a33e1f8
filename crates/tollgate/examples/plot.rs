//! Plots which hits of the same traffic each of the eight algorithms admits at 5/second.
//!
//! ```text
//! cargo run --example plot                              # as text
//! cargo run --example plot -- guides/algorithms.svg     # as a picture
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use tollgate::{Algorithm, Limit, Memory, Timestamp};

/// 2026-01-01T00:00:00Z, a whole second, at which windows of the clock start.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const QUOTA: u64 = 5;
/// The length of the traffic, in milliseconds.
const END: u64 = 9_000;

/// A phase of the traffic: its name, its start and end in milliseconds, and the times of its hits.
struct Phase {
    name: &'static str,
    detail: &'static str,
    from: u64,
    until: u64,
    hits: Vec<u64>,
}

fn every(step: u64, from: u64, hits: u64) -> Vec<u64> {
    (0..hits).map(|hit| from + hit * step).collect()
}

fn traffic() -> Vec<Phase> {
    let edge = [every(30, 4_820, 6), every(30, 5_000, 6)].concat();
    let phase = |name, detail, from, until, hits| Phase { name, detail, from, until, hits };
    vec![
        phase("steady", "4 a second", 0, 2_250, every(250, 300, 8)),
        phase("burst", "12 in ⅓ s", 2_250, 2_950, every(30, 2_400, 12)),
        phase("silence", "", 2_950, 4_650, vec![]),
        phase("edge", "6 and 6", 4_650, 5_350, edge),
        phase("silence", "", 5_350, 6_850, vec![]),
        phase("pressure", "10 a second", 6_850, END, every(100, 7_000, 20)),
    ]
}

/// The result of one algorithm: for each phase, the times of the hits and whether they were
/// admitted.
struct Lane {
    algorithm: Algorithm,
    phases: Vec<Vec<(u64, bool)>>,
}

impl Lane {
    fn of(algorithm: Algorithm, traffic: &[Phase]) -> Result<Lane, tollgate::Error> {
        let limiter = Memory::new().limiter(Limit::per_second(QUOTA).algorithm(algorithm))?;
        let decide =
            |&at: &u64| (at, limiter.at(START + Duration::from_millis(at)).hit("client").allowed());
        let phases = traffic.iter().map(|phase| phase.hits.iter().map(decide).collect()).collect();
        Ok(Lane { algorithm, phases })
    }

    fn admitted(phase: &[(u64, bool)]) -> usize {
        phase.iter().filter(|(_, admitted)| *admitted).count()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let traffic = traffic();
    let lanes: Result<Vec<Lane>, _> =
        Algorithm::PERIODIC.iter().map(|algorithm| Lane::of(*algorithm, &traffic)).collect();
    let lanes = lanes?;
    match std::env::args().nth(1) {
        Some(path) => {
            std::fs::write(&path, svg(&traffic, &lanes))?;
            println!("wrote {path}");
        }
        None => print!("{}", text(&traffic, &lanes)),
    }
    Ok(())
}

/// Draws the result as text, with one character for 100 ms. A digit is the number of admitted hits,
/// and `x` means that all hits were denied.
fn text(traffic: &[Phase], lanes: &[Lane]) -> String {
    const CELL: u64 = 100;
    let mut text = format!("{:<22}", format!("{QUOTA}/second"));
    for second in 0..END / 1_000 {
        let _ = write!(text, "{:<10}", format!("|{second}s"));
    }
    text.push_str("admitted\n");
    for lane in lanes {
        let _ = write!(text, "{:<22}", lane.algorithm);
        for cell in 0..END / CELL {
            let hits = lane.phases.iter().flatten().filter(|(at, _)| at / CELL == cell);
            let (all, admitted) =
                hits.fold((0, 0), |(all, sum), (_, ok)| (all + 1, sum + u32::from(*ok)));
            let _ = match (all, admitted) {
                (0, _) => write!(text, "·"),
                (_, 0) => write!(text, "x"),
                _ => write!(text, "{admitted}"),
            };
        }
        let each: Vec<String> = traffic
            .iter()
            .zip(&lane.phases)
            .filter(|(phase, _)| !phase.hits.is_empty())
            .map(|(phase, hits)| format!("{} {}", phase.name, Lane::admitted(hits)))
            .collect();
        let total: usize = lane.phases.iter().map(|phase| Lane::admitted(phase)).sum();
        let _ = writeln!(text, "{total:>4}: {}", each.join(", "));
    }
    text
}

const LEFT: u64 = 190;
const RIGHT: u64 = 70;
const TOP: u64 = 112;
const LANE: u64 = 50;
const WIDTH: u64 = 1_120;

/// Returns the position of a time in pixels with one decimal. It is computed in integers.
fn x(millis: u64) -> String {
    let tenths = LEFT * 10 + millis * (WIDTH - LEFT - RIGHT) * 10 / END;
    format!("{}.{}", tenths / 10, tenths % 10)
}

const STYLE: &str = "
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 13px; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .name { font-weight: 600 }
  .soft { fill: #59636e; font-size: 12px }
  .count { font-size: 12px; fill: #0a5cc2; font-weight: 600 }
  .total { font-size: 16px; font-weight: 600 }
  .band { fill: #f3f5f8 }
  .line { stroke: #d0d7de; stroke-width: 1 }
  .edge { stroke: #b6bec8; stroke-width: 1; stroke-dasharray: 2 4 }
  .yes { stroke: #0a5cc2; stroke-width: 2.2 }
  .no { stroke: #e0762a; stroke-width: 2.2 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .soft { fill: #9198a1 }
    .count { fill: #6cb2ff }
    .band { fill: #161c24 }
    .line { stroke: #3d444d }
    .edge { stroke: #4d5661 }
    .yes { stroke: #6cb2ff }
    .no { stroke: #e88a45 }
  }
";

fn svg(traffic: &[Phase], lanes: &[Lane]) -> String {
    let bottom = TOP + LANE * lanes.len() as u64;
    let height = bottom + 50;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"What each algorithm admits of the same traffic at {QUOTA}/second\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"24\" y=\"34\">The same traffic at {QUOTA}/second</text>\n",
        WIDTH - 1,
        height - 1,
    );
    legend(&mut svg);
    let _ = writeln!(
        svg,
        "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">in all</text>",
        WIDTH - 24,
        TOP - 14
    );
    phases(&mut svg, traffic, bottom);
    for (lane, top) in lanes.iter().zip((TOP..).step_by(LANE as usize)) {
        draw_lane(&mut svg, lane, traffic, top);
    }
    seconds(&mut svg, bottom);
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) {
    let _ = write!(
        svg,
        "<path class=\"yes\" d=\"M 606 20 V 38\"/><text class=\"soft\" x=\"614\" y=\"34\">admitted</text>\n\
         <path class=\"no\" d=\"M 686 31 V 38\"/><text class=\"soft\" x=\"694\" y=\"34\">refused</text>\n\
         <text class=\"count\" x=\"758\" y=\"34\">+4</text><text class=\"soft\" x=\"780\" y=\"34\">admitted here</text>\n\
         <path class=\"edge\" d=\"M 894 20 V 38\"/><text class=\"soft\" x=\"902\" y=\"34\">whole seconds of the clock</text>\n",
    );
}

fn phases(svg: &mut String, traffic: &[Phase], bottom: u64) {
    for phase in traffic.iter().step_by(2) {
        let (from, until, top) = (x(phase.from), x(phase.until), TOP - 50);
        let _ = writeln!(
            svg,
            "<path class=\"band\" d=\"M {from} {top} H {until} V {bottom} H {from} Z\"/>"
        );
    }
    for phase in traffic {
        let middle = x((phase.from + phase.until) / 2);
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"soft\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP - 31,
            phase.name,
            TOP - 14,
            phase.detail,
        );
    }
    for second in 0..=END / 1_000 {
        let _ =
            writeln!(svg, "<path class=\"edge\" d=\"M {0} {TOP} V {bottom}\"/>", x(second * 1_000));
    }
}

fn draw_lane(svg: &mut String, lane: &Lane, traffic: &[Phase], top: u64) {
    let (base, far) = (top + LANE - 8, WIDTH - 24);
    let name = match lane.algorithm {
        Algorithm::Gcra => "GCRA".to_owned(),
        other => other.as_str().replace('-', " "),
    };
    let _ = writeln!(svg, "<path class=\"line\" d=\"M 24 {top} H {far}\"/>");
    let _ = writeln!(svg, "<text class=\"name\" x=\"24\" y=\"{}\">{name}</text>", base - 6);
    // One path for all marks of a kind keeps the file small.
    let (mut yes, mut no) = (String::new(), String::new());
    for &(at, admitted) in lane.phases.iter().flatten() {
        let _ = match admitted {
            true => write!(yes, "M {} {} V {base} ", x(at), base - 20),
            false => write!(no, "M {} {} V {base} ", x(at), base - 7),
        };
    }
    for (class, path) in [("yes", yes), ("no", no)] {
        if !path.is_empty() {
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"{}\"/>", path.trim_end());
        }
    }
    let mut so_far = 0;
    for (phase, hits) in traffic.iter().zip(&lane.phases) {
        let admitted = Lane::admitted(hits);
        let sign = if so_far == 0 { "" } else { "+" };
        so_far += admitted;
        if let (Some(first), Some(last)) = (phase.hits.first(), phase.hits.last()) {
            let _ = writeln!(
                svg,
                "<text class=\"count\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{sign}{admitted}</text>",
                x((first + last) / 2),
                top + 16,
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text class=\"total\" x=\"{far}\" y=\"{}\" text-anchor=\"end\">{so_far}</text>",
        base - 4
    );
}

fn seconds(svg: &mut String, bottom: u64) {
    let _ = writeln!(svg, "<path class=\"line\" d=\"M 24 {bottom} H {}\"/>", WIDTH - 24);
    for second in 0..=END / 1_000 {
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{second} s</text>",
            x(second * 1_000),
            bottom + 24,
        );
    }
}
