//! A report for programs.

use serde_json::{Value, json};

use super::{AffectedKey, CandidateReport, DemandReport, Report, SpreadReport};

/// Seconds since the epoch, with decimals.
fn seconds(micros: u64) -> Value {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

impl Report {
    /// The report as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let lines = &self.lines;
        let report = json!({
            "formats": self.formats,
            "lines": lines.lines,
            "unreadable": lines.unreadable,
            "unreadable_examples": lines.examples.iter().map(|example| json!({
                "log": example.log,
                "line": example.line,
                "text": example.text,
            })).collect::<Vec<_>>(),
            "filtered": lines.filtered,
            "limited_in_log": lines.limited,
            "without_key": lines.without_key,
            "without_cost": lines.without_cost,
            "late": self.late,
            "shortened_window": self.shortened_window,
            "keys": self.keys,
            "max_keys": self.max_keys,
            "beyond_max_keys": self.beyond_max_keys,
            "first": seconds(self.first),
            "last": seconds(self.last),
            "limits": self.candidates.iter().map(CandidateReport::json).collect::<Vec<_>>(),
            "demand": self.demand.iter().map(DemandReport::json).collect::<Vec<_>>(),
        });
        format!("{report:#}\n")
    }
}

impl CandidateReport {
    fn json(&self) -> Value {
        let mut value = self.early.json();
        value["limit"] = self.name.clone().into();
        value["spread_evenly"] = self.spread.as_ref().map_or(Value::Null, SpreadReport::json);
        value
    }
}

impl SpreadReport {
    fn json(&self) -> Value {
        let timeline = &self.timeline;
        let steps = timeline.steps().iter().map(|step| json!([step.requests, step.denied]));
        json!({
            "requests": self.requests,
            "denied": self.denied,
            "units": self.units,
            "denied_units": self.denied_units,
            "affected_keys": self.affected_keys,
            "worst": self.worst.iter().map(AffectedKey::json).collect::<Vec<_>>(),
            "longest_run": self.longest_run.as_ref().map(AffectedKey::json),
            "timeline": {
                "start": seconds(timeline.start()),
                "step": seconds(timeline.width()),
                "requests_and_denied": steps.collect::<Vec<_>>(),
            },
        })
    }
}

impl AffectedKey {
    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "requests": self.requests,
            "denied": self.denials.denied,
            "first": seconds(self.denials.first),
            "last": seconds(self.denials.last),
            "longest_run": self.denials.longest_run,
        })
    }
}

impl DemandReport {
    fn json(&self) -> Value {
        let suggested = self.suggested.iter().map(|(thousandths, quota)| {
            json!({
                "unaffected_per_thousand": thousandths,
                "quota": quota,
                "limit": super::quota(*quota, self.span),
            })
        });
        let histogram =
            self.histogram.iter().map(|(most, keys)| json!({"up_to": most, "keys": keys}));
        json!({
            "span": seconds(self.span),
            "highest": self.highest,
            "highest_key": self.highest_key,
            "histogram": histogram.collect::<Vec<_>>(),
            "suggested": suggested.collect::<Vec<_>>(),
        })
    }
}
