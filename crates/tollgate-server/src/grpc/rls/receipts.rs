//! Receipts: in the metadata of a call, and in the dynamic metadata of its response. Envoy's messages
//! have no field for them.

use http::HeaderMap;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tollgate::WireReceipt;

use super::super::proto::RateLimitRequest;
use super::DescriptorLimit;
use super::decide::{self, Decisions};
use crate::service::{Operation, Receipts, RequestError, RuleDecision, Service};

/// The metadata of a call that asks for receipts, by the value `true`.
const ASKS: &str = "tollgate-receipts";

/// The metadata of a refund: a receipt, or several.
const GIVES: &str = "tollgate-receipt";

/// Whether the caller wants receipts.
pub(super) fn are_asked_for(headers: &HeaderMap) -> bool {
    headers.get(ASKS).is_some_and(|value| value == "true")
}

/// The receipts of a refund, if the caller gives any. The addend is the most units of each receipt.
pub(super) fn given(
    headers: &HeaderMap,
    request: &RateLimitRequest,
) -> Result<Option<Receipts>, RequestError> {
    if !headers.contains_key(GIVES) {
        return Ok(None);
    }
    let texts: Result<Vec<&str>, _> =
        headers.get_all(GIVES).iter().map(http::HeaderValue::to_str).collect();
    let texts = texts.map_err(|_| RequestError::invalid(format!("{GIVES}: must be ASCII")))?;
    let own = request.descriptors.first().and_then(|descriptor| descriptor.hits_addend);
    let units = own.or((request.hits_addend > 0).then_some(request.hits_addend.into()));
    Receipts::read(texts, units).map(Some)
}

/// Refunds the receipts of the only descriptor. Also returns the receipts that are ignored.
pub(super) async fn refund<'a>(
    service: &Service,
    limits: &'a [DescriptorLimit],
    receipts: &Receipts,
) -> Result<(RuleDecision<'a>, Vec<WireReceipt>), RequestError> {
    let [DescriptorLimit::Limited(found, Operation::Refund(_))] = limits else {
        return Err(RequestError::invalid(format!(
            "{GIVES}: only with a single descriptor that has is_negative_hits and a rule"
        )));
    };
    let refund = service.refund_receipts(&found.rule, &found.key, receipts).await?;
    Ok((refund.decision, refund.ignored))
}

/// Adds the field `receipts` to the dynamic metadata: a list for each descriptor, in order. Adds
/// `ignored`, if receipts of a refund were ignored.
pub(super) fn describe(
    limits: &[DescriptorLimit],
    decisions: &Decisions<'_>,
    ignored: &[WireReceipt],
    metadata: &mut Struct,
) {
    let passes = decide::passes(limits, decisions);
    let receipts = (0..limits.len()).map(|index| {
        let receipts = of_descriptor(limits, decisions, index, passes);
        list(receipts.iter().map(text))
    });
    metadata.fields.insert("receipts".to_owned(), list(receipts));
    if !ignored.is_empty() {
        metadata.fields.insert("ignored".to_owned(), list(ignored.iter().map(text)));
    }
}

/// The receipts of a descriptor that is still charged. Descriptors on one counter are one hit, and
/// the first of them has its receipts.
fn of_descriptor(
    limits: &[DescriptorLimit],
    decisions: &Decisions<'_>,
    index: usize,
    passes: bool,
) -> Vec<WireReceipt> {
    let (DescriptorLimit::Limited(found, operation), Some(decision)) =
        (&limits[index], &decisions[index])
    else {
        return Vec::new();
    };
    let is_hit = |limit: &DescriptorLimit| {
        matches!(limit, DescriptorLimit::Limited(_, Operation::Hit(_))) && !limit.is_quota()
    };
    let is_same = |limit: &DescriptorLimit| match limit {
        DescriptorLimit::Limited(other, _) => is_hit(limit) && DescriptorLimit::same(found, other),
        DescriptorLimit::Unlimited | DescriptorLimit::Blocked => false,
    };
    let is_repeated = is_hit(&limits[index]) && limits[..index].iter().any(is_same);
    // The hits of a denied request are given back, unless their limits charge denied hits.
    let is_given_back =
        matches!(operation, Operation::Hit(_)) && !passes && !found.rule.charges_denied(&found.key);
    if is_repeated || is_given_back {
        return Vec::new();
    }
    decision.receipts(&found.key).collect()
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.collect() })) }
}

fn text(receipt: &WireReceipt) -> Value {
    Value { kind: Some(Kind::StringValue(receipt.to_string())) }
}
