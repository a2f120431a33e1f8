//! Reports of a simulation for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tollgate_report::{
    Axis, Timeline, columns, escaped, grouped, page, percent, span, standalone, timeline_chart,
};

use crate::outcome::Outcome;
use crate::simulation::Simulation;

/// A simulation of several limits, and what they did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The traffic.
    pub simulation: Simulation,
    /// The effect of each limit.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The traffic in words, a line for each group of clients.
    fn traffic(&self) -> Vec<String> {
        let micros = u64::try_from(self.simulation.span.as_micros()).unwrap_or(u64::MAX);
        let mut lines: Vec<String> = Vec::new();
        for group in &self.simulation.groups {
            let many = if group.clients == 1 { "client" } else { "clients" };
            let cost =
                if group.cost == 1 { String::new() } else { format!(", cost {}", group.cost) };
            let clients = grouped(group.clients.into());
            lines.push(format!(
                "{clients} {many}: {} each, retry {}{cost}",
                group.load, group.retry
            ));
        }
        let keys =
            if self.simulation.shared_key { "one key for all" } else { "a key for each client" };
        lines.push(format!("{}, {keys}, seed {}", span(micros), self.simulation.seed));
        lines
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = self.traffic().join("\n") + "\n";
        for outcome in &self.outcomes {
            let _ = writeln!(out, "\n{}", outcome.limit);
            for (name, value) in self.figures(outcome) {
                let _ = writeln!(out, "  {name:<11}  {value}");
            }
            out.push_str(&columns(&outcome.timeline, Axis::Elapsed));
        }
        if self.outcomes.len() > 1 {
            self.write_comparison(&mut out);
        }
        out
    }

    fn write_comparison(&self, out: &mut String) {
        let width = self.outcomes.iter().map(|one| one.limit.chars().count()).max().unwrap_or(0);
        let _ = writeln!(out, "\nSide by side");
        let mut line = |cells: [String; 7]| {
            let [name, rest @ ..] = cells;
            let rest: Vec<_> = rest.iter().map(|cell| format!("{cell:>10}")).collect();
            let _ = writeln!(out, "  {name:width$}  {}", rest.join("  "));
        };
        line(HEADINGS.map(str::to_owned));
        self.outcomes.iter().for_each(|outcome| line(row(outcome)));
    }

    /// The figures of one limit, each with its name.
    fn figures(&self, outcome: &Outcome) -> Vec<(&'static str, String)> {
        let of = |part: u64, whole: u64| format!("{} ({})", grouped(part), percent(part, whole));
        let waits = &outcome.waits;
        let least = outcome.per_client.iter().min().copied().unwrap_or(0);
        let most = outcome.per_client.iter().max().copied().unwrap_or(0);
        let mut figures = vec![
            ("requests", grouped(outcome.requests)),
            ("admitted", of(outcome.admitted, outcome.requests)),
            ("  at once", of(outcome.admitted_at_once, outcome.requests)),
            ("given up", of(outcome.given_up, outcome.requests)),
            (
                "attempts",
                format!(
                    "{}, denied {}",
                    grouped(outcome.attempts),
                    of(outcome.denied, outcome.attempts)
                ),
            ),
            (
                "waited",
                format!(
                    "half {}, 99 % {}, longest {}",
                    wait(waits.of_thousand(500)),
                    wait(waits.of_thousand(990)),
                    wait(waits.longest())
                ),
            ),
            (
                "fairness",
                format!(
                    "{} (Jain's index; a client had {} to {} admitted)",
                    thousandths(outcome.fairness()),
                    grouped(least),
                    grouped(most)
                ),
            ),
        ];
        if outcome.waiting > 0 {
            figures.insert(4, ("waiting", format!("{} at the end", grouped(outcome.waiting))));
        }
        if outcome.groups.len() > 1 {
            for (group, done) in self.simulation.groups.iter().zip(&outcome.groups) {
                let share = of(done.admitted, done.requests);
                figures.push(("of group", format!("{}: admitted {share}", group.load)));
            }
        }
        figures
    }

    /// The report for programs.
    #[must_use]
    pub fn to_json(&self) -> String {
        let groups = self.simulation.groups.iter().map(|group| {
            json!({
                "load": group.load.to_string(),
                "clients": group.clients,
                "retry": group.retry.to_string(),
                "cost": group.cost,
            })
        });
        let report = json!({
            "groups": groups.collect::<Vec<_>>(),
            "span_us": u64::try_from(self.simulation.span.as_micros()).unwrap_or(u64::MAX),
            "seed": self.simulation.seed,
            "shared_key": self.simulation.shared_key,
            "limits": self.outcomes.iter().map(json_outcome).collect::<Vec<_>>(),
        });
        format!("{report:#}\n")
    }

    /// The charts as one SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let charts: Vec<(&str, &Timeline)> =
            self.outcomes.iter().map(|one| (&one.limit[..], &one.timeline)).collect();
        standalone(&charts, Axis::Elapsed)
    }

    /// The report as one HTML file that loads nothing.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut body = "<h1>What would the limit do to this traffic?</h1>".to_owned();
        for line in self.traffic() {
            let _ = write!(body, "<p>{}.</p>", escaped(&line));
        }
        if self.outcomes.len() > 1 {
            body.push_str("<h2>Side by side</h2><div class=\"scroll\"><table><thead><tr>");
            for (index, heading) in HEADINGS.iter().enumerate() {
                let class = if index == 0 { "" } else { " class=\"number\"" };
                let _ = write!(body, "<th{class}>{heading}</th>");
            }
            body.push_str("</tr></thead><tbody>");
            for outcome in &self.outcomes {
                let [name, rest @ ..] = row(outcome);
                let _ = write!(body, "<tr><td><code>{}</code></td>", escaped(&name));
                for cell in rest {
                    let _ = write!(body, "<td class=\"number\">{cell}</td>");
                }
                body.push_str("</tr>");
            }
            body.push_str("</tbody></table></div>");
        }
        for outcome in &self.outcomes {
            let _ = write!(
                body,
                "<h2><code>{}</code></h2>{}<p class=\"note\"><span class=\"key allowed\">allowed</span><span class=\"key refused\">denied</span></p><table><tbody>",
                escaped(&outcome.limit),
                timeline_chart(&outcome.timeline, Axis::Elapsed)
            );
            for (name, value) in self.figures(outcome) {
                let _ = write!(body, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
            }
            body.push_str("</tbody></table>");
        }
        page("What would the limit do to this traffic?", &body)
    }
}

const HEADINGS: [&str; 7] =
    ["limit", "admitted", "at once", "given up", "denied", "99 % wait", "fairness"];

/// An outcome as a row below [`HEADINGS`].
fn row(outcome: &Outcome) -> [String; 7] {
    [
        outcome.limit.clone(),
        percent(outcome.admitted, outcome.requests),
        percent(outcome.admitted_at_once, outcome.requests),
        percent(outcome.given_up, outcome.requests),
        grouped(outcome.denied),
        wait(outcome.waits.of_thousand(990)),
        thousandths(outcome.fairness()),
    ]
}

fn json_outcome(outcome: &Outcome) -> Value {
    let waits = &outcome.waits;
    let timeline = &outcome.timeline;
    let steps = timeline.steps().iter().map(|step| json!([step.requests, step.denied]));
    let groups = outcome
        .groups
        .iter()
        .map(|group| json!({ "requests": group.requests, "admitted": group.admitted }));
    json!({
        "limit": outcome.limit,
        "requests": outcome.requests,
        "attempts": outcome.attempts,
        "admitted": outcome.admitted,
        "admitted_at_once": outcome.admitted_at_once,
        "denied_attempts": outcome.denied,
        "given_up": outcome.given_up,
        "waiting": outcome.waiting,
        "wait_us": {
            "p50": waits.of_thousand(500),
            "p90": waits.of_thousand(900),
            "p99": waits.of_thousand(990),
            "p99.9": waits.of_thousand(999),
            "max": waits.longest(),
        },
        "fairness_thousandths": outcome.fairness(),
        "admitted_per_client": outcome.per_client,
        "groups": groups.collect::<Vec<_>>(),
        "timeline": {
            "step_us": timeline.width(),
            "attempts_and_denied": steps.collect::<Vec<_>>(),
        },
    })
}

/// Thousandths as a decimal: `0.998`.
fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1_000, value % 1_000)
}

/// A wait to three digits: `0 s`, `950 us`, `20.5 ms`, `3.25 s`, `12.0 min`.
fn wait(micros: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let whole = micros / unit;
        match whole {
            100.. => format!("{whole} {name}"),
            10.. => format!("{whole}.{} {name}", micros % unit * 10 / unit),
            _ => format!("{whole}.{:02} {name}", micros % unit * 100 / unit),
        }
    };
    match micros {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{micros} us"),
        1_000..1_000_000 => scaled(1_000, "ms"),
        1_000_000..120_000_000 => scaled(1_000_000, "s"),
        120_000_000..7_200_000_000 => scaled(60_000_000, "min"),
        _ => scaled(3_600_000_000, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_three_digits() {
        let waits = [0, 950, 20_500, 3_250_000, 720_000_000, 36_000_000_000].map(wait);
        assert_eq!(waits, ["0 s", "950 us", "20.5 ms", "3.25 s", "12.0 min", "10.0 h"]);
        assert_eq!([0, 998, 1_000].map(thousandths), ["0.000", "0.998", "1.000"]);
    }
}
