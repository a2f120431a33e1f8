//! Refunds by receipts that clients send back, and by decisions of the same request.

use tollgate::{Key, WireReceipt};

use super::Service;
use super::bound_rule::BoundRule;
use super::error::RequestError;
use super::rule_decision::RuleDecision;

/// The receipts that a client sends back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// The receipts.
    pub list: Vec<WireReceipt>,
    /// The most units to give back for each of them; `None` means all.
    pub units: Option<u64>,
}

/// The answer to a refund by receipts.
#[derive(Clone, Debug)]
pub struct RuleRefund<'r> {
    /// The state of the limits after the refund.
    pub decision: RuleDecision<'r>,
    /// Receipts of a fallback, a lease or a replica of another process: nothing was given back for
    /// them.
    pub ignored: Vec<WireReceipt>,
}

impl Receipts {
    /// Reads the receipts from texts.
    ///
    /// # Errors
    /// When one is no receipt.
    pub fn read<'t>(
        texts: impl IntoIterator<Item = &'t str>,
        units: Option<u64>,
    ) -> Result<Receipts, RequestError> {
        let list: Result<Vec<WireReceipt>, tollgate::Error> =
            texts.into_iter().map(str::parse).collect();
        Ok(Receipts { list: list?, units })
    }
}

impl Service {
    /// Gives back what the receipts charged to a key of a rule. All of them are checked first.
    ///
    /// # Errors
    /// When one is for another key or another limit, or has charged fewer units; and when the store
    /// does not answer. Then nothing is given back.
    pub async fn refund_receipts<'r, K: Key>(
        &self,
        rule: &'r BoundRule,
        key: K,
        receipts: &Receipts,
    ) -> Result<RuleRefund<'r>, RequestError> {
        let (limiter, _) = key.with_key(|key| rule.limiter_of(key)).map_err(|verdict| {
            let verdict = verdict.name();
            RequestError::invalid(format!("receipt: the key is {verdict}, so no limit counts it"))
        })?;
        let Receipts { list, units } = receipts;
        let refund = limiter.limiter.refund_wire_receipts(key, list, *units).await;
        let refund = refund.map_err(RequestError::from).inspect_err(|error| {
            if error.is_of_store() {
                rule.stats().failed();
            }
        })?;
        let decision = rule.decision(limiter, Some(refund.decision));
        Ok(RuleRefund { decision, ignored: refund.ignored })
    }

    /// Gives back what a hit of this cost has charged, if it was not exempt.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn give_back<K: Key>(
        &self,
        rule: &BoundRule,
        key: K,
        cost: u64,
        charged: &RuleDecision<'_>,
    ) -> Result<(), RequestError> {
        let found = key.with_key(|key| rule.limiter_of(key));
        if let (Ok((limiter, price)), Some(decision)) = (found, &charged.decision) {
            let units = cost.saturating_mul(price);
            limiter.limiter.refund_part(key, decision, units).await?;
        }
        Ok(())
    }
}
