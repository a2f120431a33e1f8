//! The path of a request through a gate: key, exemptions, limiter, cost, decision, headers.

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::{Decision, Error};

use super::{Gate, OnMissing, Rules};
use crate::admission::{Admission, AdmittedRequest, Deciding};
use crate::callers::look_up;
use crate::chooser::{RouteLimiter, Selection};
use crate::count::{Counted, Stopwatch, count_undecided};
use crate::decider::Decider;
use crate::head::Head;
use crate::header_figures::HeaderFigures;
use crate::key_by::RequestKey;
use crate::limited_request::LimitedRequest;
use crate::preflight::is_preflight;
use crate::refused_request::{Cause, RefusedRequest};

impl<D: Decider> Gate<D> {
    /// Decides on a request; `sleep` is the timer of the runtime, for gates that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Memory;
    /// use tollgate_http::{Admission, Deciding, Gate, Head};
    ///
    /// let gate = Gate::new(Memory::new().limiter("1/minute")?);
    /// let headers = http::HeaderMap::new();
    /// let head = Head::new("GET", "/", &headers).peer("192.0.2.1".parse().ok());
    /// let decide = || match gate.decide(&head, |_: Duration| std::future::ready(())) {
    ///     Deciding::Ready(Admission::Admitted(_)) => "admitted",
    ///     Deciding::Ready(Admission::Refused(_)) => "refused",
    ///     Deciding::Pending(_) => "a store in this process does not wait",
    /// };
    /// assert_eq!([decide(), decide()], ["admitted", "refused"]);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn decide<F: Future<Output = ()> + Send>(
        &self,
        head: &Head<'_>,
        sleep: impl Fn(Duration) -> F + Send + Sync + 'static,
    ) -> Deciding<D> {
        let rules = &*self.rules;
        let key = match rules.key_of(head) {
            Ok(key) => key,
            Err(admission) => return Deciding::Ready(admission),
        };
        let limiter = match (rules.chooser.select(head), &rules.callers) {
            (Selection::Rule(None), _) => return Deciding::Ready(unlimited()),
            (Selection::Rule(Some(limiter)) | Selection::Default(limiter), None) => limiter,
            (selection, callers) => {
                let found = look_up(callers.as_deref(), &selection, head, key);
                return self.pending(found, rules.cost_of(head), sleep);
            }
        };
        let cost = rules.cost_of(head);
        let watch = Stopwatch::start();
        if rules.wait.is_zero()
            && let Some(decision) = limiter.limiter.try_now(&key, cost)
        {
            return Deciding::Ready(rules.admission(watch, limiter, key, cost, decision));
        }
        self.pending(ready((key, Some(Arc::clone(limiter)))), cost, sleep)
    }

    #[inline(never)]
    fn pending<F: Future<Output = ()> + Send>(
        &self,
        found: impl Future<Output = (RequestKey, Option<Arc<RouteLimiter<D>>>)> + Send + 'static,
        cost: u64,
        sleep: impl Fn(Duration) -> F + Send + Sync + 'static,
    ) -> Deciding<D> {
        let rules = Arc::clone(&self.rules);
        Deciding::Pending(Box::pin(async move {
            let watch = Stopwatch::start();
            let (key, limiter) = found.await;
            let Some(limiter) = limiter else { return unlimited() };
            let decision = if rules.wait.is_zero() {
                limiter.limiter.hit(&key, cost).await
            } else {
                limiter.limiter.wait(&key, cost, rules.wait, sleep).await
            };
            rules.admission(watch, &limiter, key, cost, decision)
        }))
    }
}

impl<D: Decider> Rules<D> {
    /// The key of a request, or its admission where no limiter has to decide. A request without a
    /// key never gets as far as the exemptions.
    #[inline(always)]
    fn key_of(&self, head: &Head<'_>) -> Result<RequestKey, Admission<D>> {
        let key = match self.key.find(head) {
            Some(key) => key,
            None => self.missing_key()?,
        };
        let exempt = self.exempt.as_ref().is_some_and(|exempt| exempt(head, &key))
            || (self.exempts_preflight && is_preflight(head));
        if exempt { Err(unlimited()) } else { Ok(key) }
    }

    #[cold]
    fn missing_key(&self) -> Result<RequestKey, Admission<D>> {
        if let OnMissing::Refuse(status) = self.on_missing {
            tracing::debug!("refused a request without a key");
            count_undecided(Counted::Denied);
            let refused = RefusedRequest { status, cause: Cause::NoKey };
            return Err(Admission::Refused(Box::new(refused)));
        }
        // Warns once: a server that does not pass on addresses shares one bucket among all of its
        // clients.
        if !self.warned_missing_key.swap(true, Ordering::Relaxed) {
            tracing::warn!(key = ?self.key, "a request has no key: all of them share one bucket");
        }
        Ok(RequestKey::everyone())
    }

    #[inline]
    fn cost_of(&self, head: &Head<'_>) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost(head))
    }

    #[inline(always)]
    fn admission(
        &self,
        watch: Stopwatch,
        limiter: &Arc<RouteLimiter<D>>,
        key: RequestKey,
        cost: u64,
        decision: Result<Decision, Error>,
    ) -> Admission<D> {
        match decision {
            // Most requests need only a few figures of the decision.
            Ok(decision)
                if decision.allowed() && !self.keeps_decisions && self.settle.is_none() =>
            {
                let label = limiter.headers.label(decision.headline_index());
                watch.decided(label, Counted::Allowed);
                let headers = self.header_figures(limiter, &decision);
                Admission::Admitted(AdmittedRequest { headers, request: None })
            }
            decision => self.other_admission(watch, limiter, key, cost, decision),
        }
    }

    #[inline(never)]
    fn other_admission(
        &self,
        watch: Stopwatch,
        limiter: &Arc<RouteLimiter<D>>,
        key: RequestKey,
        cost: u64,
        decision: Result<Decision, Error>,
    ) -> Admission<D> {
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                tracing::warn!(%error, "the store did not decide on a request");
                watch.decided(limiter.headers.label(0), Counted::Error);
                let refused = RefusedRequest { status: 503, cause: Cause::StoreFailed(error) };
                return Admission::Refused(Box::new(refused));
            }
        };
        let counted = match (decision.allowed(), self.shadow) {
            (true, _) => Counted::Allowed,
            (false, false) => Counted::Denied,
            (false, true) => Counted::Shadow,
        };
        let label = limiter.headers.label(decision.headline_index());
        watch.decided(label, counted);
        if counted != Counted::Allowed {
            let limit = label.map(|label| &**label).unwrap_or_default();
            tracing::debug!(limit, shadow = self.shadow, "refused a request");
        }
        let headers = self.header_figures(limiter, &decision);
        let (limiter, settle_by) = (Arc::clone(limiter), self.settle.clone());
        let request = LimitedRequest { limiter, key, cost, decision, settle_by };
        if counted == Counted::Denied {
            let cause = Cause::Denied { request, headers, problem: self.problem };
            return Admission::Refused(Box::new(RefusedRequest { status: self.status, cause }));
        }
        Admission::Admitted(AdmittedRequest { headers, request: Some(Box::new(request)) })
    }

    #[inline]
    fn header_figures(
        &self,
        limiter: &RouteLimiter<D>,
        decision: &Decision,
    ) -> Option<HeaderFigures> {
        if self.shadow && !decision.allowed() {
            // A shadow refuses no request, so no client has to wait.
            return self.headers.clone().retry_after(false).figures(&limiter.headers, decision);
        }
        self.headers.figures(&limiter.headers, decision)
    }
}

fn unlimited<D: Decider>() -> Admission<D> {
    count_undecided(Counted::Unlimited);
    Admission::Admitted(AdmittedRequest::UNLIMITED)
}
