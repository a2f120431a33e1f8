//! A report for a terminal.

use std::fmt::Write as _;

use super::{CandidateReport, DemandReport, Report, SpreadReport, grouped, percent, span, utc};

const WORST_SHOWN: usize = 10;

impl Report {
    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_summary(&mut out);
        for candidate in &self.candidates {
            candidate.write(&mut out);
        }
        if self.candidates.len() > 1 {
            self.write_comparison(&mut out);
        }
        out
    }

    fn write_summary(&self, out: &mut String) {
        let lines = &self.lines;
        let mut formats = self.formats.clone();
        formats.dedup();
        let _ = writeln!(
            out,
            "{} lines ({}), {} keys, from {} to {} UTC",
            grouped(lines.lines),
            formats.join(", "),
            grouped(self.keys),
            utc(self.first),
            utc(self.last)
        );
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                let _ = writeln!(out, "  {} {text}", grouped(count));
            }
        };
        note(lines.unreadable, "lines could not be read");
        note(lines.filtered, "requests were left out by filters");
        note(lines.limited, "requests had been limited already when the log was written");
        note(lines.without_key, "requests had no key and share one, shown as -");
        note(self.late, "requests came too late in the log to be put in order (see --window)");
        if self.beyond_max_keys > 0 {
            let text = format!(
                "requests were left out: a replay tells {} keys apart",
                grouped(self.max_keys)
            );
            note(self.beyond_max_keys, &text);
        }
        for example in &lines.examples {
            let _ = writeln!(out, "  unreadable: {example}");
        }
    }

    fn write_comparison(&self, out: &mut String) {
        let _ = writeln!(out, "\nSide by side");
        let width = self.candidates.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
        let _ = writeln!(out, "  {:width$}  {:>14}  {:>14}", "limit", "denied", "affected keys");
        for candidate in &self.candidates {
            let report = &candidate.early;
            let _ = writeln!(
                out,
                "  {:width$}  {:>14}  {:>14}",
                candidate.name,
                percent(report.denied, report.requests),
                percent(report.affected_keys, self.keys)
            );
        }
    }

    /// The demand of the keys, and the quotas that would leave most of them unaffected.
    #[must_use]
    pub fn demand_to_text(&self) -> String {
        let mut out = String::new();
        for demand in &self.demand {
            demand.write(&mut out);
        }
        out
    }
}

impl CandidateReport {
    fn write(&self, out: &mut String) {
        let _ = writeln!(out, "\n{}", self.name);
        match &self.spread {
            None => self.early.write(out, ""),
            Some(spread) => {
                let _ = writeln!(
                    out,
                    "  The log states whole seconds. All requests of a second at its start:"
                );
                self.early.write(out, "");
                let _ = writeln!(out, "  Spread evenly over the second:");
                spread.write_counts(out);
            }
        }
    }
}

impl SpreadReport {
    fn write(&self, out: &mut String, indent: &str) {
        self.write_counts(out);
        if let Some(longest) = &self.longest_run {
            let _ = writeln!(
                out,
                "{indent}  longest run     {} denials in a row: {}",
                grouped(longest.denials.longest_run),
                longest.key
            );
        }
        if !self.worst.is_empty() {
            let _ = writeln!(out, "{indent}  {:>10}  {:19}  {:19}  key", "denied", "first", "last");
        }
        for affected in self.worst.iter().take(WORST_SHOWN) {
            let _ = writeln!(
                out,
                "{indent}  {:>10}  {}  {}  {}",
                grouped(affected.denials.denied),
                utc(affected.denials.first),
                utc(affected.denials.last),
                affected.key
            );
        }
    }

    fn write_counts(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "  denied          {} of {} requests ({})",
            grouped(self.denied),
            grouped(self.requests),
            percent(self.denied, self.requests)
        );
        if self.units != self.requests {
            let _ = writeln!(
                out,
                "  denied units    {} of {} ({})",
                grouped(self.denied_units),
                grouped(self.units),
                percent(self.denied_units, self.units)
            );
        }
        let _ = writeln!(out, "  affected keys   {}", grouped(self.affected_keys));
    }
}

impl DemandReport {
    fn write(&self, out: &mut String) {
        let _ = writeln!(out, "\nMost units of a key in any {}", span(self.span));
        let widest = self.histogram.iter().map(|(_, keys)| *keys).max().unwrap_or(1).max(1);
        for (most, keys) in &self.histogram {
            let bar = "#".repeat((keys * 40).div_ceil(widest) as usize);
            let _ =
                writeln!(out, "  up to {:>10}  {:>10} keys  {bar}", grouped(*most), grouped(*keys));
        }
        let _ = writeln!(out, "  highest: {} ({})", grouped(self.highest), self.highest_key);
        let _ = writeln!(
            out,
            "  Quotas that leave so many keys unaffected, with a burst as large as the quota:"
        );
        for (thousandths, quota) in &self.suggested {
            let share = format!("{}.{} %", thousandths / 10, thousandths % 10);
            let _ = writeln!(out, "  {share:>8}  {}", super::quota(*quota, self.span));
        }
    }
}
