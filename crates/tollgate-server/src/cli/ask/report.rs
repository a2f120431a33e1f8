//! Prints an answer for people.

use std::fmt;

use serde_json::Value;

/// An answer of the HTTP port, or JSON of the same form.
#[derive(Debug)]
pub(super) struct Report(pub(super) Value);

impl Report {
    pub(super) fn passes(&self) -> bool {
        self.0.get("allowed").and_then(Value::as_bool).unwrap_or(true)
    }

    pub(super) fn json(&self) -> String {
        self.0.to_string()
    }

    /// The receipts of what was charged.
    pub(super) fn receipts(&self) -> impl Iterator<Item = &str> {
        let receipts = match self.0.get("receipt") {
            Some(Value::Array(several)) => &several[..],
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        receipts.iter().filter_map(Value::as_str)
    }

    fn number(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| value.is_number())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reset) = self.0.get("reset").and_then(Value::as_bool) {
            return f.write_str(if reset { "forgotten" } else { "nothing to forget" });
        }
        let Some(verdict) = self.0.get("verdict").and_then(Value::as_str) else {
            let used = self.0.get("used").unwrap_or(&Value::Null);
            return write!(f, "{used} in use");
        };
        f.write_str(verdict)?;
        if let (Some(left), Some(limit)) = (self.number("remaining"), self.number("limit")) {
            write!(f, ": {left} of {limit} left")?;
        }
        if !self.passes() {
            match self.number("retry_after") {
                Some(wait) => write!(f, ", retry in {wait} s")?,
                None if verdict == "denied" => f.write_str(", this cost never fits")?,
                None => {}
            }
        }
        if let Some(reset) = self.number("reset_after").filter(|reset| reset.as_f64() != Some(0.0))
        {
            write!(f, ", as good as new in {reset} s")?;
        }
        if let Some(Value::Array(ignored)) = self.0.get("ignored") {
            let count = ignored.len();
            write!(f, "; {count} receipts ignored: only the process that issued them can refund")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line() {
        for (json, line) in [
            (
                r#"{"allowed":true,"verdict":"allowed","limit":20,"remaining":19,"retry_after":0,"reset_after":0.1}"#,
                "allowed: 19 of 20 left, as good as new in 0.1 s",
            ),
            (
                r#"{"allowed":false,"verdict":"denied","limit":2,"remaining":0,"retry_after":0.5,"reset_after":1}"#,
                "denied: 0 of 2 left, retry in 0.5 s, as good as new in 1 s",
            ),
            (
                r#"{"allowed":false,"verdict":"denied","limit":2,"remaining":2,"retry_after":null,"reset_after":0}"#,
                "denied: 2 of 2 left, this cost never fits",
            ),
            (r#"{"allowed":true,"verdict":"exempt"}"#, "exempt"),
            (
                r#"{"allowed":true,"verdict":"allowed","ignored":["AQ"]}"#,
                "allowed; 1 receipts ignored: only the process that issued them can refund",
            ),
            (r#"{"reset":true}"#, "forgotten"),
            (r#"{"used":[1,2]}"#, "[1,2] in use"),
        ] {
            assert_eq!(Report(serde_json::from_str(json).unwrap()).to_string(), line);
        }
    }
}
