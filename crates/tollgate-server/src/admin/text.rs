//! The text format that Prometheus reads. It is written by hand: the numbers are computed for each
//! scrape, and the format has three rules.

use std::fmt::{Display, Write as _};

/// A page of metrics that is being written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a metric with its name, its type and its help text.
    pub(super) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes one value of the metric that was begun last.
    pub(super) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        let mut text = Text::default();
        text.metric("a_total", "counter", "What it is.");
        text.value("a_total", &[("rule", "x\"\\\n"), ("port", "http")], 3);
        text.value("b", &[], 1.5);
        let expected = "# HELP a_total What it is.\n# TYPE a_total counter\n\
                        a_total{rule=\"x\\\"\\\\\\n\",port=\"http\"} 3\nb 1.5\n";
        assert_eq!(text.into_string(), expected);
    }
}
