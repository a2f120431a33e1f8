//! One call on a limiter, and how its caller waits for the answer.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Decision, Error, OwnedKey, Timestamp};

use crate::error::exception;
use crate::process::runtime;

/// An operation that a caller requests on a key.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Hit(u64),
    Peek(u64),
    Take(u64),
    Charge(u64),
    Refund(Box<Decision>, u64),
    RefundUnits(u64),
    Set(u64),
    Wait(u64, Duration),
    Usage,
    Reset,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Decision(Decision),
    Decisions(Vec<Decision>),
    Units(u64),
    Flag(bool),
    Done,
}

pub(crate) type Shared = Arc<SharedLimiter<AnyStore>>;

/// Makes a call on one key. `at` is the time; `None` means the store's own clock.
pub(crate) async fn ask(
    limiter: Shared,
    key: OwnedKey,
    call: Call,
    at: Option<Timestamp>,
) -> Result<Answer, Error> {
    let decision = match (call, at) {
        (Call::Wait(cost, timeout), _) => limiter.wait(key, cost, timeout).await,
        (Call::Reset, None) => return limiter.reset(key).await.map(Answer::Flag),
        (Call::Reset, Some(at)) => return limiter.at(at).reset(key).await.map(Answer::Flag),
        (Call::Usage, None) => return limiter.usage(key).await.map(Answer::Units),
        (Call::Usage, Some(at)) => return limiter.at(at).usage(key).await.map(Answer::Units),
        (Call::Hit(cost), None) => limiter.hit_n(key, cost).await,
        (Call::Hit(cost), Some(at)) => limiter.at(at).hit_n(key, cost).await,
        (Call::Peek(cost), None) => limiter.peek_n(key, cost).await,
        (Call::Peek(cost), Some(at)) => limiter.at(at).peek_n(key, cost).await,
        (Call::Take(cost), None) => limiter.take(key, cost).await,
        (Call::Take(cost), Some(at)) => limiter.at(at).take(key, cost).await,
        (Call::Charge(units), None) => limiter.charge(key, units).await,
        (Call::Charge(units), Some(at)) => limiter.at(at).charge(key, units).await,
        (Call::Refund(charged, units), None) => limiter.refund_part(key, &charged, units).await,
        (Call::Refund(charged, units), Some(at)) => {
            limiter.at(at).refund_part(key, &charged, units).await
        }
        (Call::RefundUnits(units), None) => limiter.refund_n(key, units).await,
        (Call::RefundUnits(units), Some(at)) => limiter.at(at).refund_n(key, units).await,
        (Call::Set(units), None) => limiter.set(key, units).await,
        (Call::Set(units), Some(at)) => limiter.at(at).set(key, units).await,
    };
    decision.map(Answer::Decision)
}

/// The answer of a call that does not have to wait: a store in this process, a lease, a remembered
/// denial. The future goes on elsewhere if it is not ready.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> PyResult<Poll<F::Output>> {
    let _entered = runtime()?.enter();
    Ok(pin!(future).poll(&mut Context::from_waker(Waker::noop())))
}

/// Waits for an answer. The GIL is released only if there is something to wait for: releasing it
/// takes longer than a decision in this process.
pub(crate) fn block<T: Send>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<T> {
    let mut call = Box::pin(call);
    let answer = match poll_once(&mut call)? {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            let runtime = runtime()?;
            py.detach(|| runtime.block_on(call))
        }
    };
    answer.map_err(|error| exception(py, &error))
}
