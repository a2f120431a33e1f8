//! A report for a terminal.

use std::fmt::Write as _;

use tollgate_report::{Axis, bar, columns, grouped, percent, span, utc};

use super::{CandidateReport, DemandReport, Report, SpreadReport};

const WORST_SHOWN: usize = 10;

impl Report {
    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_summary(&mut out);
        if let Some(why) = self.why_empty() {
            let _ = writeln!(out, "\nThere is nothing to replay: {why}.");
            return out;
        }
        for candidate in &self.candidates {
            candidate.write(self.keys, &mut out);
        }
        if self.candidates.len() > 1 {
            self.write_comparison(&mut out);
        }
        for demand in &self.demand {
            demand.write_histogram(&mut out);
        }
        out
    }

    fn write_summary(&self, out: &mut String) {
        let lines = &self.lines;
        let _ = write!(out, "{} lines", grouped(lines.lines));
        let formats = self.format_names();
        if !formats.is_empty() {
            let _ = write!(out, " ({formats})");
        }
        let _ = write!(out, ", {} keys", grouped(self.keys));
        let _ = match self.last {
            0 => writeln!(out, ", no requests"),
            last => writeln!(out, ", from {} to {} UTC", utc(self.first), utc(last)),
        };
        for (count, text) in self.notes() {
            let _ = writeln!(out, "  {} {text}", grouped(count));
        }
        if self.shortened_window {
            let _ = writeln!(
                out,
                "  too many requests lay within the window: some were put in order within less"
            );
        }
        for example in &lines.examples {
            let text = example.text.as_ref().map(|text| format!(": {text:?}"));
            let _ = writeln!(
                out,
                "  unreadable: {}:{}{}",
                example.log,
                example.line,
                text.unwrap_or_default()
            );
        }
    }

    /// The formats of the logs that have lines.
    fn format_names(&self) -> String {
        let mut formats = self.formats.clone();
        formats.retain(|format| !format.is_empty());
        formats.dedup();
        formats.join(", ")
    }

    /// Why there is no request to run the limits on; `None` if there is one.
    pub(super) fn why_empty(&self) -> Option<String> {
        let lines = &self.lines;
        if self.last != 0 {
            return None;
        }
        Some(if lines.lines == 0 {
            "the log has no lines".to_owned()
        } else if lines.unreadable == lines.lines {
            format!(
                "no line could be read as {}; without --format the format is detected",
                self.format_names()
            )
        } else {
            "no request is left of those that could be read".to_owned()
        })
    }

    /// Notes that a reader needs about the lines of the log, each with its number of lines.
    pub(super) fn notes(&self) -> Vec<(u64, String)> {
        let lines = &self.lines;
        let beyond = format!(
            "requests were left out, because a replay tells {} keys apart (see --max-keys)",
            grouped(self.max_keys)
        );
        let late = "requests came too late in the log to be put in order (see --window)";
        let readable = lines.lines.saturating_sub(lines.unreadable);
        let without_key = match lines.without_key == readable.saturating_sub(lines.filtered) {
            true => {
                "requests, which are all, had no key and share one, shown as -; is --key right?"
            }
            false => "requests had no key and share one, shown as -",
        };
        let notes = [
            (lines.unreadable, "lines could not be read"),
            (lines.filtered, "requests were left out by filters"),
            (lines.limited, "requests had been limited already when the log was written"),
            (lines.without_key, without_key),
            (lines.without_cost, "requests had no number as their cost and cost 1"),
            (self.late, late),
            (self.beyond_max_keys, &beyond),
        ];
        let happened = notes.into_iter().filter(|(count, _)| *count > 0);
        happened.map(|(count, text)| (count, text.to_owned())).collect()
    }

    fn write_comparison(&self, out: &mut String) {
        let _ = writeln!(out, "\nSide by side");
        let width = self.candidates.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "  {:width$}  {:>10}  {:>14}  {:>10}  {:>13}  {:>11}",
            "limit", "denied", "of requests", "keys", "of keys", "longest run"
        );
        for candidate in &self.candidates {
            let mut line = |name: &str, report: &SpreadReport| {
                let _ = writeln!(
                    out,
                    "  {name:width$}  {:>10}  {:>14}  {:>10}  {:>13}  {:>11}",
                    grouped(report.denied),
                    percent(report.denied, report.requests),
                    grouped(report.affected_keys),
                    percent(report.affected_keys, self.keys),
                    grouped(report.longest_run.as_ref().map_or(0, |key| key.denials.longest_run)),
                );
            };
            line(&candidate.name, &candidate.early);
            if let Some(spread) = &candidate.spread {
                line("  spread evenly", spread);
            }
        }
    }

    /// The quotas that would leave most keys unaffected.
    #[must_use]
    pub fn suggestions_to_text(&self) -> String {
        let mut out = String::new();
        if self.why_empty().is_some() {
            return out;
        }
        for demand in &self.demand {
            demand.write_suggestions(&mut out);
        }
        out
    }
}

impl CandidateReport {
    fn write(&self, keys: u64, out: &mut String) {
        let _ = writeln!(out, "\n{}", self.name);
        if self.spread.is_some() {
            let _ = writeln!(
                out,
                "  The log states whole seconds. All requests of a second at its start:"
            );
        }
        self.early.write_counts(keys, out);
        if let Some(spread) = &self.spread {
            let _ = writeln!(out, "  Spread evenly over the second:");
            spread.write_counts(keys, out);
        }
        self.early.write_worst(out);
    }
}

impl SpreadReport {
    fn write_counts(&self, keys: u64, out: &mut String) {
        let _ = writeln!(
            out,
            "    denied         {} of {} requests ({})",
            grouped(self.denied),
            grouped(self.requests),
            percent(self.denied, self.requests)
        );
        if self.units != self.requests {
            let _ = writeln!(
                out,
                "    denied units   {} of {} ({})",
                grouped(self.denied_units),
                grouped(self.units),
                percent(self.denied_units, self.units)
            );
        }
        let _ = writeln!(
            out,
            "    affected keys  {} of {} ({})",
            grouped(self.affected_keys),
            grouped(keys),
            percent(self.affected_keys, keys)
        );
        if let Some(longest) = &self.longest_run {
            let _ = writeln!(
                out,
                "    longest run    {} denials in a row: {}",
                grouped(longest.denials.longest_run),
                longest.key
            );
        }
        if let Some((begin, step)) = self.timeline.worst() {
            let _ = writeln!(
                out,
                "    worst time     {} denials in {} from {}",
                grouped(step.denied),
                span(self.timeline.width()),
                utc(begin)
            );
        }
    }

    fn write_worst(&self, out: &mut String) {
        if self.worst.is_empty() {
            return;
        }
        out.push_str(&columns(&self.timeline, Axis::Utc));
        let _ = writeln!(
            out,
            "  {:>10}  {:>9}  {:>8}  {:19}  {:19}  key",
            "denied", "of its", "in a row", "first", "last"
        );
        for affected in self.worst.iter().take(WORST_SHOWN) {
            let denials = &affected.denials;
            let _ = writeln!(
                out,
                "  {:>10}  {:>9}  {:>8}  {}  {}  {}",
                grouped(denials.denied),
                percent(denials.denied, affected.requests),
                grouped(denials.longest_run),
                utc(denials.first),
                utc(denials.last),
                affected.key
            );
        }
    }
}

impl DemandReport {
    fn write_histogram(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\nMost units of a key in any {}: {} ({})",
            span(self.span),
            grouped(self.highest),
            self.highest_key
        );
        let most = self.histogram.iter().map(|(_, keys)| *keys).max().unwrap_or(1);
        for (up_to, keys) in &self.histogram {
            let line = format!(
                "  up to {:>10}  {:>10} keys  {}",
                grouped(*up_to),
                grouped(*keys),
                bar(*keys, most)
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }

    fn write_suggestions(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\nQuotas per {} that leave so many keys unaffected, with a burst as large as the quota",
            span(self.span).trim_start_matches("1 ")
        );
        for (thousandths, quota) in &self.suggested {
            let share = format!("{} %", super::share(*thousandths));
            let _ = writeln!(out, "  {share:>8}  {}", super::quota(*quota, self.span));
        }
    }
}
