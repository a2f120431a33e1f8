//! JSON, written by hand: a decision is a few numbers, and times are exact decimals and not floats.

use std::time::Duration;

use tollgate::{Decision, Limit, Outcome, WireReceipt};

use super::key_request::KeyText;
use crate::seconds::Seconds;
use crate::service::{RuleDecision, RuleRefund, Verdict};

/// A text in quotes. Nearly all names need no escapes.
fn quoted(text: &str, out: &mut String) {
    let plain = text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// `write!` would take as long as the decision.
fn number(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

fn flag(flag: bool, out: &mut String) {
    out.push_str(if flag { "true" } else { "false" });
}

/// A decision of a rule on a key, with its receipts.
pub(super) fn decision(decision: &RuleDecision<'_>, key: &KeyText<'_>, out: &mut String) {
    out.push('{');
    rule_fields(decision, out);
    receipts(decision.limits(), decision.receipts(key), out);
    out.push('}');
}

/// The state after a refund by receipts.
pub(super) fn refund(refund: &RuleRefund<'_>, out: &mut String) {
    out.push('{');
    rule_fields(&refund.decision, out);
    if !refund.ignored.is_empty() {
        out.push_str(",\"ignored\":");
        list(refund.ignored.iter().copied(), out);
    }
    out.push('}');
}

fn rule_fields(decision: &RuleDecision<'_>, out: &mut String) {
    outcomes(decision.verdict, decision.decision.as_ref(), decision.limits(), out);
}

/// The receipts of what was charged: a text for one limit, a list for several limits, nothing if
/// nothing was charged. A refund takes the value as it is.
pub(crate) fn receipts(
    limits: &[Limit],
    receipts: impl Iterator<Item = WireReceipt>,
    out: &mut String,
) {
    let mut receipts = receipts.peekable();
    if receipts.peek().is_none() {
        return;
    }
    out.push_str(",\"receipt\":");
    match receipts.next_if(|_| limits.len() == 1) {
        Some(one) => receipt(one, out),
        None => list(receipts, out),
    }
}

fn list(receipts: impl Iterator<Item = WireReceipt>, out: &mut String) {
    for (index, one) in receipts.enumerate() {
        out.push(if index == 0 { '[' } else { ',' });
        receipt(one, out);
    }
    out.push(']');
}

fn receipt(receipt: WireReceipt, out: &mut String) {
    out.push('"');
    receipt.push_to(out);
    out.push('"');
}

/// The fields of a decision, which may have no rule, without braces.
pub(crate) fn outcomes(
    verdict: Verdict,
    decision: Option<&Decision>,
    limits: &[Limit],
    out: &mut String,
) {
    out.push_str("\"allowed\":");
    flag(verdict.passes(), out);
    out.push_str(",\"verdict\":\"");
    out.push_str(verdict.name());
    out.push('"');
    if let Some(decision) = decision {
        out.push(',');
        fields(decision.headline(), limits.get(decision.headline_index()), out);
    }
    let outcomes = decision.map_or(&[][..], Decision::outcomes);
    if outcomes.len() > 1 {
        out.push_str(",\"limits\":[");
        for (index, outcome) in outcomes.iter().enumerate() {
            out.push_str(if index == 0 { "{\"allowed\":" } else { ",{\"allowed\":" });
            flag(outcome.allowed(), out);
            out.push(',');
            fields(outcome, limits.get(index), out);
            out.push('}');
        }
        out.push(']');
    }
}

/// Units in use: of the headline, and of each limit where there are several.
pub(super) fn usage(decision: &RuleDecision<'_>, out: &mut String) {
    out.push_str("{\"used\":");
    number(decision.used(), out);
    let outcomes = decision.outcomes();
    if outcomes.len() > 1 {
        out.push_str(",\"limits\":[");
        for (index, outcome) in outcomes.iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            named(decision.limits().get(index), out);
            out.push_str("\"limit\":");
            number(outcome.limit(), out);
            out.push_str(",\"used\":");
            number(outcome.used(), out);
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

/// The name of a limit, if it has one, followed by a comma.
fn named(limit: Option<&Limit>, out: &mut String) {
    if let Some(name) = limit.and_then(Limit::name) {
        out.push_str("\"name\":");
        quoted(name, out);
        out.push(',');
    }
}

/// The fields of one outcome, without braces.
fn fields(outcome: &Outcome, limit: Option<&Limit>, out: &mut String) {
    named(limit, out);
    // Computed once for all fields.
    let all = outcome.fields();
    for (name, count) in
        [("\"limit\":", all.limit), (",\"remaining\":", all.remaining), (",\"used\":", all.used)]
    {
        out.push_str(name);
        number(count, out);
    }
    out.push_str(",\"retry_after\":");
    match outcome.retry_after() {
        Some(wait) => Seconds(wait).push_to(out),
        None => out.push_str("null"),
    }
    out.push_str(",\"reset_after\":");
    let fresh = all.fresh_at.map_or(Duration::ZERO, |at| at.since(outcome.now()));
    Seconds(fresh).push_to(out);
    out.push_str(",\"charged\":");
    number(outcome.charged(), out);
    out.push_str(",\"source\":\"");
    out.push_str(outcome.source().name());
    out.push_str("\",\"bound\":");
    match outcome.bound() {
        Some(bound) => number(bound, out),
        None => out.push_str("null"),
    }
    if outcome.is_ban() {
        // The units of a ban are denials.
        out.push_str(",\"ban\":true");
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
