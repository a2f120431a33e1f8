//! Faults of stores, and their effect on states and places.

use std::time::Duration;

use tollgate::algorithm::AnyState;
use tollgate::{KeyRef, Limit, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A call reads, decides and writes, and another call may come between.
    Racy,
    /// Each handle has its own states.
    CountsForEachHandle,
    /// A TTL of one period, however long the refill takes.
    ShortTtl,
    NoTtl,
    KeepsFreshKeys,
    /// Rounds times to milliseconds.
    RoundsTimes,
    /// Rounds levels to whole units.
    RoundsLevels,
    /// `<=` instead of `<` where a state expires: one microsecond early.
    WrongBoundary,
    /// Drops the part of a microsecond that GCRA carries.
    ForgetsTheRest,
    /// Writes a bucket's time although it has gone back.
    ForgetsTheGuard,
    CountsIn32Bits,
    CountsInFloats,
    /// Computes a level in doubles, as Lua does.
    LevelsInDoubles,
    ChargesDenied,
    PeeksPush,
    ChargesPoliciesTwice,
    ChargesWhatFits,
    ForgetsChargeDenied,
    SkipsRepeatedKeys,
    TakesClonesForOthers,
    /// Joins the parts of a key with a colon.
    JoinsParts,
    /// Joins namespace and key with a colon.
    JoinsNamespaces,
    CutsLongKeys,
    ForgetsPeriods,
    CountsPoliciesApart,
    /// Identifies a limit with a name by its whole definition.
    ForgetsNames,
    TagsIntegers,
    ClockOfEachHandle,
    AdmitsTheBurstTwice,
    /// Uses the latest time that any caller passed.
    TrustsTheLatestTime,
    RemembersBeyondRefunds,
    RemembersTooLong,
    RemembersAnyCost,
    RemembersElasticWindows,
    ResetsInVain,
    AdmitsOnError,
    DeniesOnError,
    /// Blocks the thread, with or without a deadline.
    BlocksOnError,
    ExecutesThoughUnavailable,
    AttemptsExtendBans,
    BansStartOneDenialLate,
    LevelsOfBansNeverDecay,
}

/// The place of a key's state.
pub(crate) type Place = (String, Vec<u8>);

pub(crate) fn identity(fault: Option<Fault>, namespace: &str, limit: &Limit) -> String {
    let identity = match fault {
        Some(Fault::ForgetsNames) => limit.to_string(),
        Some(Fault::ForgetsPeriods) => {
            format!("{}/{} {}", limit.quota(), limit.algorithm(), limit.burst())
        }
        _ => limit.identity(),
    };
    match fault {
        Some(Fault::JoinsNamespaces) => format!("{identity} {namespace}:"),
        _ => format!("{identity} {namespace:?}"),
    }
}

pub(crate) fn place(fault: Option<Fault>, identity: &str, key: KeyRef<'_>) -> Place {
    let exact = || [&[key.form() as u8], key.bytes()].concat();
    let key = match fault {
        Some(Fault::JoinsParts) => key.parts().collect::<Vec<_>>().join(&b':'),
        Some(Fault::JoinsNamespaces) => {
            // The namespace becomes the end of the identity, so nothing separates the two.
            let (identity, namespace) = identity.split_once(' ').unwrap_or((identity, ""));
            return (identity.to_owned(), [namespace.as_bytes(), key.bytes()].concat());
        }
        Some(Fault::CutsLongKeys) => exact().into_iter().take(250).collect(),
        Some(Fault::TagsIntegers) if key.bytes().iter().all(u8::is_ascii_digit) => {
            // Text and integers differ by their type in other libraries.
            static CALLS: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
            vec![CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)]
        }
        _ => exact(),
    };
    (identity.to_owned(), key)
}

/// A state after it was written and read again.
pub(crate) fn written(
    fault: Option<Fault>,
    limit: &Limit,
    now: Timestamp,
    state: AnyState,
) -> AnyState {
    match (fault, state) {
        (Some(Fault::RoundsTimes), state) => rounded(state),
        (Some(Fault::RoundsLevels), AnyState::TokenBucket(mut state)) => {
            let unit = limit.period().as_micros();
            state.level = state.level / unit * unit;
            AnyState::TokenBucket(state)
        }
        (Some(Fault::ForgetsTheRest), AnyState::Gcra(mut state)) => {
            state.part = 0;
            AnyState::Gcra(state)
        }
        (Some(Fault::ForgetsTheGuard), AnyState::LeakyBucket(mut state)) => {
            state.time = now;
            AnyState::LeakyBucket(state)
        }
        (Some(Fault::ForgetsTheGuard), AnyState::TokenBucket(mut state)) => {
            state.time = now;
            AnyState::TokenBucket(state)
        }
        (Some(Fault::CountsIn32Bits), AnyState::FixedWindow(mut state)) => {
            state.count &= u64::from(u32::MAX);
            AnyState::FixedWindow(state)
        }
        (Some(Fault::CountsInFloats), AnyState::FixedWindowPerKey(mut state)) => {
            state.count = state.count as f32 as u64;
            AnyState::FixedWindowPerKey(state)
        }
        (Some(Fault::LevelsInDoubles), AnyState::LeakyBucket(mut state)) => {
            state.level = state.level as f64 as u128;
            AnyState::LeakyBucket(state)
        }
        (_, state) => state,
    }
}

fn rounded(state: AnyState) -> AnyState {
    let millis = |time: Timestamp| Timestamp::from_micros(time.as_micros() / 1_000 * 1_000);
    match state {
        AnyState::Gcra(mut state) => {
            state.tat = millis(state.tat);
            AnyState::Gcra(state)
        }
        AnyState::FixedWindowPerKey(mut state) => {
            state.start = millis(state.start);
            AnyState::FixedWindowPerKey(state)
        }
        other => other,
    }
}

/// How long a store keeps a state that counts its TTL from the period.
pub(crate) fn one_period(written: Timestamp, limit: &Limit) -> Timestamp {
    written + limit.period()
}

pub(crate) const TICK: Duration = Duration::from_micros(1);
