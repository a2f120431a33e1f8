//! JSON, written by hand: an answer is a few numbers, and times are exact decimals, which are no floats.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate::{Decision, Limit};

use crate::service::{Answer, Decisions};

/// A text in quotes. Names are plain nearly always, and then nothing has to be looked up.
fn quoted(text: &str, out: &mut String) {
    let plain = text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Seconds with up to six decimals.
pub(super) fn seconds(span: Duration, out: &mut String) {
    let micros = span.subsec_micros();
    let _ = write!(out, "{}", span.as_secs());
    if micros > 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// The answer to a hit and to everything else that decides.
pub(crate) fn answer(answer: &Answer, limits: &[Limit], out: &mut String) {
    let _ =
        write!(out, "{{\"allowed\":{},\"verdict\":\"{}\"", answer.passes(), answer.verdict.name());
    if let Some((index, decision)) = answer.decisions.headline() {
        out.push(',');
        fields(decision, limits.get(index), out);
    }
    if let Decisions::Several(_) = &answer.decisions {
        out.push_str(",\"limits\":[");
        for (index, decision) in answer.decisions.outcomes().iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            let _ = write!(out, "\"allowed\":{},", decision.allowed());
            fields(decision, limits.get(index), out);
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

/// The fields of one decision, without braces.
pub(super) fn fields(decision: &Decision, limit: Option<&Limit>, out: &mut String) {
    if let Some(name) = limit.and_then(Limit::name) {
        out.push_str("\"name\":");
        quoted(name, out);
        out.push(',');
    }
    let (most, used, left) = (decision.limit(), decision.used(), decision.remaining());
    let _ = write!(out, "\"limit\":{most},\"remaining\":{left},\"used\":{used},\"retry_after\":");
    match decision.retry_after() {
        Some(wait) => seconds(wait, out),
        None => out.push_str("null"),
    }
    out.push_str(",\"reset_after\":");
    seconds(decision.reset_after(), out);
    let _ = write!(
        out,
        ",\"charged\":{},\"source\":\"{}\"",
        decision.charged(),
        decision.source().name()
    );
    let _ = match decision.bound() {
        Some(bound) => write!(out, ",\"bound\":{bound}"),
        None => write!(out, ",\"bound\":null"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back_as_it_was() {
        for text in ["", "plain", "say \"so\"", "back\\slash", "two\nlines", "\u{0}\u{7f}", "żółw"]
        {
            let mut out = String::new();
            quoted(text, &mut out);
            assert_eq!(serde_json::from_str::<String>(&out).ok().as_deref(), Some(text));
        }
    }
}
