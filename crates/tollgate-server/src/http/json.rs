//! JSON, written by hand: an answer is a few numbers, and times are exact decimals, which are no
//! floats.

use std::time::Duration;

use tollgate::{Decision, Limit, Outcome};

use crate::seconds::Seconds;
use crate::service::Answer;

/// A text in quotes. Names are plain nearly always, and then nothing has to be looked up.
fn quoted(text: &str, out: &mut String) {
    let plain = text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Not by `write!`, which takes as long as the decision.
fn number(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

fn flag(flag: bool, out: &mut String) {
    out.push_str(if flag { "true" } else { "false" });
}

/// The answer to a hit and to everything else that decides.
pub(crate) fn answer(answer: &Answer, limits: &[Limit], out: &mut String) {
    out.push_str("{\"allowed\":");
    flag(answer.passes(), out);
    out.push_str(",\"verdict\":\"");
    out.push_str(answer.verdict.name());
    out.push('"');
    if let Some(decision) = &answer.decision {
        out.push(',');
        fields(decision.headline(), limits.get(decision.headline_index()), out);
    }
    let outcomes = answer.outcomes();
    if outcomes.len() > 1 {
        out.push_str(",\"limits\":[");
        for (index, decision) in outcomes.iter().enumerate() {
            out.push_str(if index == 0 { "{\"allowed\":" } else { ",{\"allowed\":" });
            flag(decision.allowed(), out);
            out.push(',');
            fields(decision, limits.get(index), out);
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

/// Units in use: of the limit that binds, and of each where there are several.
pub(super) fn usage(answer: &Answer, limits: &[Limit], out: &mut String) {
    let used = answer.decision.as_ref().map_or(0, Decision::used);
    out.push_str("{\"used\":");
    number(used, out);
    let outcomes = answer.outcomes();
    if outcomes.len() > 1 {
        out.push_str(",\"limits\":[");
        for (index, decision) in outcomes.iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            named(limits.get(index), out);
            out.push_str("\"limit\":");
            number(decision.limit(), out);
            out.push_str(",\"used\":");
            number(decision.used(), out);
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

/// The name of a limit, if it has one, with a comma behind it.
fn named(limit: Option<&Limit>, out: &mut String) {
    if let Some(name) = limit.and_then(Limit::name) {
        out.push_str("\"name\":");
        quoted(name, out);
        out.push(',');
    }
}

/// The fields of one decision, without braces.
pub(super) fn fields(decision: &Outcome, limit: Option<&Limit>, out: &mut String) {
    named(limit, out);
    // All at once: each alone would compute them anew.
    let all = decision.fields();
    for (name, count) in
        [("\"limit\":", all.limit), (",\"remaining\":", all.remaining), (",\"used\":", all.used)]
    {
        out.push_str(name);
        number(count, out);
    }
    out.push_str(",\"retry_after\":");
    match decision.retry_after() {
        Some(wait) => Seconds(wait).push_to(out),
        None => out.push_str("null"),
    }
    out.push_str(",\"reset_after\":");
    let fresh = all.fresh_at.map_or(Duration::ZERO, |at| at.since(decision.now()));
    Seconds(fresh).push_to(out);
    out.push_str(",\"charged\":");
    number(decision.charged(), out);
    out.push_str(",\"source\":\"");
    out.push_str(decision.source().name());
    out.push_str("\",\"bound\":");
    match decision.bound() {
        Some(bound) => number(bound, out),
        None => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_a_round_trip() {
        for text in ["", "plain", "say \"so\"", "back\\slash", "two\nlines", "\u{0}\u{7f}", "żółw"]
        {
            let mut out = String::new();
            quoted(text, &mut out);
            assert_eq!(serde_json::from_str::<String>(&out).ok().as_deref(), Some(text));
        }
    }
}
