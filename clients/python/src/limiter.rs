//! Limiters.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyString;
use tollgate::shared::{OnFailure, SharedLimiter, hit_all_shared};
use tollgate::{Error, Limit, OwnedKey, Policy, Timestamp};

use crate::call::{Answer, Call, Shared, ask, block};
use crate::decision::{Decision, Limits, to_python};
use crate::error::{exception, request};
use crate::key::PyKey;
use crate::mailbox::Mailbox;
use crate::process::PerProcess;
use crate::store::Store;
use crate::value::{At, Span, Units};

/// One or several limits on a store. Calls wait for the store, and other threads run meanwhile.
#[pyclass(frozen, subclass, module = "pytollgate")]
#[derive(Debug)]
pub(crate) struct Limiter {
    store: Py<Store>,
    settings: Settings,
    limits: Arc<Limits>,
    made: PerProcess<Shared>,
}

#[derive(Debug)]
struct Settings {
    namespace: String,
    policy: Policy,
    on_failure: OnFailure,
    deadline: Option<Duration>,
}

impl Settings {
    fn limiter(&self, py: Python<'_>, store: &Store) -> PyResult<Shared> {
        let store = store.opened(py)?;
        let made = || -> Result<_, Error> {
            let limiter = SharedLimiter::new(store, &self.namespace, &self.policy)?;
            let limiter = limiter.on_failure(self.on_failure)?;
            Ok(Arc::new(match self.deadline {
                Some(deadline) => limiter.deadline(deadline),
                None => limiter,
            }))
        };
        made().map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (policy, *, store=None, namespace="", on_failure="error", deadline=None))]
    fn new(
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        store: Option<&Bound<'_, PyAny>>,
        namespace: &str,
        on_failure: &str,
        deadline: Option<Span>,
    ) -> PyResult<Limiter> {
        let settings = Settings {
            namespace: namespace.to_owned(),
            policy: policy_of(py, policy)?,
            on_failure: on_failure
                .parse()
                .map_err(|error: Error| request(py, format!("on_failure {error}")))?,
            deadline: deadline.map(|Span(deadline)| deadline),
        };
        let store = match store {
            Some(store) if store.cast::<Store>().is_ok() => store.cast::<Store>()?.clone().unbind(),
            other => {
                let url: Option<String> = other.map(PyAnyMethods::extract).transpose()?;
                let url = url.as_deref().unwrap_or("memory:");
                Py::new(py, Store::new(py, url, None, None, None, None)?)?
            }
        };
        let made = PerProcess::new(settings.limiter(py, store.get())?);
        let limits = Limits::new(settings.policy.limits());
        Ok(Limiter { store, settings, limits, made })
    }

    #[inline]
    #[pyo3(signature = (key, cost=Units(1), *, at=None))]
    fn hit(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Units,
        at: Option<At>,
    ) -> PyResult<Decision> {
        if at.is_none()
            && let Some(decided) = self.made(py)?.hit_now(&PyKey::of(key)?, cost.0)
        {
            return Ok(Decision::new(decided, &self.limits));
        }
        self.decide(py, key, Call::Hit(cost.0), at)
    }

    #[pyo3(signature = (key, cost=Units(1), *, at=None))]
    fn peek(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Units,
        at: Option<At>,
    ) -> PyResult<Decision> {
        self.decide(py, key, Call::Peek(cost.0), at)
    }

    #[pyo3(signature = (key, cost, *, at=None))]
    fn take(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Units,
        at: Option<At>,
    ) -> PyResult<Decision> {
        self.decide(py, key, Call::Take(cost.0), at)
    }

    #[pyo3(signature = (key, units, *, at=None))]
    fn charge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        units: Units,
        at: Option<At>,
    ) -> PyResult<Decision> {
        self.decide(py, key, Call::Charge(units.0), at)
    }

    #[pyo3(signature = (key, charged, units=None, *, at=None))]
    fn refund(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        charged: &Bound<'_, PyAny>,
        units: Option<Units>,
        at: Option<At>,
    ) -> PyResult<Decision> {
        self.decide(py, key, refund(charged, units)?, at)
    }

    #[pyo3(signature = (key, units, *, at=None))]
    fn set(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        units: Units,
        at: Option<At>,
    ) -> PyResult<Decision> {
        self.decide(py, key, Call::Set(units.0), at)
    }

    #[pyo3(signature = (key, cost=Units(1), *, timeout))]
    fn wait(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Units,
        timeout: Span,
    ) -> PyResult<Decision> {
        self.decide(py, key, Call::Wait(cost.0, timeout.0), None)
    }

    #[pyo3(signature = (key, *, at=None))]
    fn usage(&self, py: Python<'_>, key: &Bound<'_, PyAny>, at: Option<At>) -> PyResult<Py<PyAny>> {
        self.answer(py, key, Call::Usage, at)
    }

    #[pyo3(signature = (key, *, at=None))]
    fn reset(&self, py: Python<'_>, key: &Bound<'_, PyAny>, at: Option<At>) -> PyResult<Py<PyAny>> {
        self.answer(py, key, Call::Reset, at)
    }

    #[pyo3(signature = (keys, *, at=None))]
    fn hit_each(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        let call = hit_each(Arc::clone(self.made(py)?), owned_keys(keys)?, instant(at));
        to_python(py, block(py, call)?, &self.limits)
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let limiter = Arc::clone(self.made(py)?);
        block(py, async move { limiter.clear().await })
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let limiter = Arc::clone(self.made(py)?);
        block(py, async move { limiter.check().await })
    }

    #[getter]
    fn policy(&self) -> String {
        self.settings.policy.to_string()
    }

    #[getter]
    fn store(&self, py: Python<'_>) -> Py<Store> {
        self.store.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let store = self.store.bind(py).repr()?;
        Ok(format!("Limiter({:?}, store={store})", self.policy()))
    }

    // The same calls for asyncio. They return an answer, or a pending call.

    #[pyo3(signature = (mailbox, key, cost, at=None))]
    fn start_hit(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        key: &Bound<'_, PyAny>,
        cost: Units,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        self.start(py, mailbox, key, Call::Hit(cost.0), at)
    }

    /// Starts any call but a refund and a wait. `units` is its cost or units, if it has them.
    #[pyo3(signature = (mailbox, name, key, units, at=None))]
    fn start_call(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        name: &str,
        key: &Bound<'_, PyAny>,
        units: Units,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        let call = match name {
            "peek" => Call::Peek(units.0),
            "take" => Call::Take(units.0),
            "charge" => Call::Charge(units.0),
            "set" => Call::Set(units.0),
            "usage" => Call::Usage,
            "reset" => Call::Reset,
            _ => return Err(request(py, format!("call {name:?}: unknown"))),
        };
        self.start(py, mailbox, key, call, at)
    }

    #[pyo3(signature = (mailbox, key, charged, units=None, at=None))]
    fn start_refund(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        key: &Bound<'_, PyAny>,
        charged: &Bound<'_, PyAny>,
        units: Option<Units>,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        self.start(py, mailbox, key, refund(charged, units)?, at)
    }

    fn start_wait(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        key: &Bound<'_, PyAny>,
        cost: Units,
        timeout: Span,
    ) -> PyResult<Py<PyAny>> {
        self.start(py, mailbox, key, Call::Wait(cost.0, timeout.0), None)
    }

    #[pyo3(signature = (mailbox, keys, at=None))]
    fn start_hit_each(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        keys: &Bound<'_, PyAny>,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        let call = hit_each(Arc::clone(self.made(py)?), owned_keys(keys)?, instant(at));
        mailbox.start(py, &self.limits, call)
    }

    fn start_clear(&self, py: Python<'_>, mailbox: &Mailbox) -> PyResult<Py<PyAny>> {
        let limiter = Arc::clone(self.made(py)?);
        let call = async move { limiter.clear().await.map(|()| Answer::Done) };
        mailbox.start(py, &self.limits, call)
    }

    fn start_check(&self, py: Python<'_>, mailbox: &Mailbox) -> PyResult<Py<PyAny>> {
        let limiter = Arc::clone(self.made(py)?);
        let call = async move { limiter.check().await.map(|()| Answer::Done) };
        mailbox.start(py, &self.limits, call)
    }
}

impl Limiter {
    #[inline]
    fn made(&self, py: Python<'_>) -> PyResult<&Shared> {
        self.made.get(|| self.settings.limiter(py, self.store.get()))
    }

    fn answered(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        call: Call,
        at: Option<At>,
    ) -> PyResult<Answer> {
        let key = OwnedKey::new(&PyKey::of(key)?);
        block(py, ask(Arc::clone(self.made(py)?), key, call, instant(at)))
    }

    fn answer(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        call: Call,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        to_python(py, self.answered(py, key, call, at)?, &self.limits)
    }

    fn decide(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        call: Call,
        at: Option<At>,
    ) -> PyResult<Decision> {
        match self.answered(py, key, call, at)? {
            Answer::Decision(decided) => Ok(Decision::new(decided, &self.limits)),
            other => unreachable!("a decision was asked for, not {other:?}"),
        }
    }

    fn start(
        &self,
        py: Python<'_>,
        mailbox: &Mailbox,
        key: &Bound<'_, PyAny>,
        call: Call,
        at: Option<At>,
    ) -> PyResult<Py<PyAny>> {
        let key = OwnedKey::new(&PyKey::of(key)?);
        mailbox.start(py, &self.limits, ask(Arc::clone(self.made(py)?), key, call, instant(at)))
    }
}

/// Hits several keys of limiters on one store: all are charged or none is.
#[pyfunction]
#[pyo3(signature = (items, *, at=None))]
pub(crate) fn hit_all(
    py: Python<'_>,
    items: Vec<(Py<Limiter>, Py<PyAny>, Units)>,
    at: Option<At>,
) -> PyResult<Decision> {
    let (items, limits) = items_of(py, &items)?;
    match block(py, together(items, instant(at)))? {
        Answer::Decision(decided) => Ok(Decision::new(decided, &limits)),
        other => unreachable!("a decision was asked for, not {other:?}"),
    }
}

/// The same for asyncio.
#[pyfunction]
#[pyo3(signature = (mailbox, items, at=None))]
pub(crate) fn start_hit_all(
    py: Python<'_>,
    mailbox: &Mailbox,
    items: Vec<(Py<Limiter>, Py<PyAny>, Units)>,
    at: Option<At>,
) -> PyResult<Py<PyAny>> {
    let (items, limits) = items_of(py, &items)?;
    mailbox.start(py, &limits, together(items, instant(at)))
}

type Items = Vec<(Shared, OwnedKey, u64)>;

fn items_of(
    py: Python<'_>,
    items: &[(Py<Limiter>, Py<PyAny>, Units)],
) -> PyResult<(Items, Arc<Limits>)> {
    let item = |(limiter, key, cost): &(Py<Limiter>, Py<PyAny>, Units)| {
        let made = Arc::clone(limiter.get().made(py)?);
        Ok((made, OwnedKey::new(&PyKey::of(key.bind(py))?), cost.0))
    };
    let mut limits: Vec<Limit> = Vec::new();
    for (limiter, ..) in items {
        limits.extend_from_slice(limiter.get().settings.policy.limits());
    }
    Ok((items.iter().map(item).collect::<PyResult<_>>()?, Limits::new(&limits)))
}

async fn together(items: Items, at: Option<Timestamp>) -> Result<Answer, Error> {
    let items: Vec<_> = items.iter().map(|(made, key, cost)| made.item(key, *cost)).collect();
    hit_all_shared(&items, at).await.map(Answer::Decision)
}

async fn hit_each(
    limiter: Shared,
    keys: Vec<OwnedKey>,
    at: Option<Timestamp>,
) -> Result<Answer, Error> {
    let decisions = match at {
        Some(at) => limiter.at(at).hit_each(&keys).await,
        None => limiter.hit_each(&keys).await,
    };
    decisions.map(Answer::Decisions)
}

fn instant(at: Option<At>) -> Option<Timestamp> {
    at.map(|At(at)| at)
}

fn owned_keys(keys: &Bound<'_, PyAny>) -> PyResult<Vec<OwnedKey>> {
    keys.try_iter()?.map(|key| Ok(OwnedKey::new(&PyKey::of(&key?)?))).collect()
}

/// A refund of a decision, or a correction of this many units if there is no decision.
fn refund(charged: &Bound<'_, PyAny>, units: Option<Units>) -> PyResult<Call> {
    match charged.cast::<Decision>() {
        Ok(decision) => {
            let most = units.map_or(u64::MAX, |Units(units)| units);
            Ok(Call::Refund(Box::new(decision.get().decided.clone()), most))
        }
        Err(_) => Ok(Call::RefundUnits(charged.extract::<Units>()?.0)),
    }
}

fn policy_of(py: Python<'_>, policy: &Bound<'_, PyAny>) -> PyResult<Policy> {
    let parsed = match policy.cast::<PyString>() {
        Ok(text) => text.to_str()?.parse(),
        Err(_) => Policy::new(policy.extract::<Vec<String>>()?),
    };
    parsed.map_err(|error| exception(py, &error.into()))
}
