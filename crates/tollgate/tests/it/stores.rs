//! The tests of in-process stores. They are generic over [`Subject`], and one line runs all of them
//! for a store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Algorithm, Atomic, Clock, ErrorKind, Key, Limit, Limiter, ManualClock, Memory, Store, Timestamp,
};

mod allocation;
mod bound;
mod calls;
mod direct;
mod expiry;
mod housekeeping;
mod keys;
mod memory_only;
mod sequences;
mod several;
mod times;
mod words;

/// A Friday in 2026. Tests do not begin at the epoch, because there a time that is wrongly zero
/// would not be noticed.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_790_000_000_123_457);

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A clock of any type, so that it does not change the type of the store.
pub(crate) type AnyClock = Arc<dyn Clock>;

/// The settings of a store under test.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) clock: AnyClock,
    pub(crate) max_keys: usize,
    pub(crate) max_limits: usize,
    pub(crate) clean_period: Duration,
    pub(crate) key_older_than: Option<Duration>,
}

impl Settings {
    /// Returns settings with a large bound on keys, and with a clean period so long that callers
    /// never clean.
    pub(crate) fn new(clock: impl Clock + 'static) -> Settings {
        Settings {
            clock: Arc::new(clock),
            max_keys: 1_000_000,
            max_limits: 100_000,
            clean_period: Duration::from_secs(1_000_000_000),
            key_older_than: None,
        }
    }
}

/// A store under test.
pub(crate) trait Subject: Store + std::fmt::Debug {
    /// The store counts at least this multiple of a limit's capacity before its counts saturate.
    const COUNTS: u64;

    fn build(settings: Settings) -> Self;
    /// Forgets the keys that are fresh by the store's clock, and returns their number.
    fn sweep(&self) -> usize;
    /// Returns the number of keys with an entry.
    fn entries(&self) -> usize;
    /// Returns the number of limits that the store knows.
    fn known_limits(&self) -> usize;
    /// Returns the number of hits that were decided on an overflow state.
    fn hits_at_the_bound(&self) -> usize;
    fn forget_namespace(&self, namespace: &str);
}

pub(crate) type MemorySubject = Memory<AnyClock>;

impl Subject for MemorySubject {
    const COUNTS: u64 = u64::MAX;

    fn build(settings: Settings) -> Self {
        let builder = Memory::builder()
            .clock(settings.clock)
            .max_keys(settings.max_keys)
            .max_limits(settings.max_limits)
            .clean_period(settings.clean_period);
        match settings.key_older_than {
            Some(age) => builder.key_older_than(age).build(),
            None => builder.build(),
        }
    }

    fn sweep(&self) -> usize {
        self.clean()
    }

    fn entries(&self) -> usize {
        self.len()
    }

    fn known_limits(&self) -> usize {
        self.limits()
    }

    fn hits_at_the_bound(&self) -> usize {
        self.overflowed()
    }

    fn forget_namespace(&self, namespace: &str) {
        self.clear_namespace(namespace);
    }
}

pub(crate) type AtomicSubject = Atomic<AnyClock>;

impl Subject for AtomicSubject {
    const COUNTS: u64 = 16;

    fn build(settings: Settings) -> Self {
        let builder = Atomic::builder()
            .clock(settings.clock)
            .max_keys(settings.max_keys)
            .max_limits(settings.max_limits)
            .clean_period(settings.clean_period);
        match settings.key_older_than {
            Some(age) => builder.key_older_than(age).build(),
            None => builder.build(),
        }
    }

    fn sweep(&self) -> usize {
        self.clean()
    }

    fn entries(&self) -> usize {
        self.len()
    }

    fn known_limits(&self) -> usize {
        self.limits()
    }

    fn hits_at_the_bound(&self) -> usize {
        self.overflowed()
    }

    fn forget_namespace(&self, namespace: &str) {
        self.clear_namespace(namespace);
    }
}

/// Returns a store whose clock stands at [`START`], and the clock.
pub(crate) fn store<S: Subject>() -> (S, ManualClock) {
    let clock = ManualClock::new(START);
    (S::build(Settings::new(clock.clone())), clock)
}

pub(crate) fn limiter<S: Subject>(store: &S, text: &str) -> Limiter<S> {
    Limiter::new(store, "", text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn policy<S: Subject>(store: &S, text: &str) -> Limiter<S> {
    Limiter::new(store, "", text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns one limiter for each algorithm that the store supports, all with this quota and period.
pub(crate) fn limiters<S: Subject>(store: &S, quota: u64, period: Duration) -> Vec<Limiter<S>> {
    let limit = |algorithm| Limit::new(quota, period).algorithm(algorithm);
    let all = Algorithm::PERIODIC.map(|algorithm| Limiter::new(store, "", limit(algorithm)));
    all.into_iter().filter_map(supported).collect()
}

/// Returns the prepared limit or limiter, or `None` if the store does not support the limit.
pub(crate) fn supported<T>(prepared: Result<T, tollgate::Error>) -> Option<T> {
    match prepared {
        Ok(prepared) => Some(prepared),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            None
        }
    }
}

/// Returns how many of `tries` hits of cost 1 pass.
pub(crate) fn admitted<S: Store>(limiter: &Limiter<S>, key: impl Key, tries: usize) -> usize {
    (0..tries).filter(|_| limiter.hit(&key).allowed()).count()
}

/// Defines one test for each rule (a generic test function) of a module, for one store.
macro_rules! rules {
    ($store:ty: $($module:ident::{$($rule:ident),+ $(,)?})+) => {
        $(mod $module {
            $(#[test]
            fn $rule() {
                crate::stores::$module::$rule::<$store>();
            })+
        })+
    };
}

/// Defines the tests of all rules, for each store.
macro_rules! conformance {
    ($($name:ident: $store:ty),+ $(,)?) => {
        $(mod $name {
            rules! { $store:
                allocation::{
                    keys_of_any_length_take_a_bounded_number_of_bytes,
                    decisions_on_known_keys_make_no_allocation,
                    decisions_on_policies_make_one_allocation,
                }
                bound::{
                    cleaning_makes_room_for_new_keys,
                    a_forgotten_limit_keeps_its_shared_state,
                    a_denied_hit_at_the_bound_has_the_source_overflow,
                    a_key_that_gets_a_slot_starts_with_the_shared_state,
                    a_peek_at_a_future_time_does_not_change_the_shared_state,
                    a_peek_at_the_bound_shows_what_a_hit_would_get,
                    a_refund_reduces_the_shared_state,
                    a_denied_group_does_not_change_the_shared_state,
                    the_slot_of_an_expired_key_goes_to_a_new_key,
                    many_new_keys_neither_grow_the_store_nor_evict_known_keys,
                    known_keys_keep_exact_states_and_unknown_keys_share_one,
                    each_limit_has_a_shared_state_of_its_own,
                }
                expiry::{
                    a_state_is_kept_until_it_equals_a_fresh_one,
                    an_expired_state_acts_as_a_fresh_one,
                    cleaning_changes_no_answer,
                    only_fresh_states_are_cleaned,
                }
                housekeeping::{
                    hits_at_a_future_time_do_not_stop_the_cleaning,
                    cleaning_returns_the_number_of_forgotten_keys,
                    hits_clean_the_expired_keys_of_other_limits,
                    hits_clean_when_the_period_has_passed,
                    hits_forget_keys_that_were_unused_for_the_configured_age,
                    keys_that_are_used_are_kept_beyond_the_configured_age,
                    limits_that_are_used_only_once_are_forgotten,
                    a_limit_in_use_is_never_forgotten_at_the_bound_on_limits,
                    keys_that_were_unused_for_the_configured_age_are_forgotten,
                    without_a_configured_age_unused_keys_are_kept,
                }
                keys::{
                    a_changed_quota_keeps_the_counters_of_a_named_limit,
                    a_limit_has_the_same_counter_alone_and_in_policies,
                    a_long_key_has_the_same_counter_in_every_call,
                    different_keys_never_share_a_counter,
                    different_limits_never_share_a_counter,
                    integers_and_addresses_are_the_same_keys_as_their_text,
                    keys_of_any_length_that_differ_in_one_byte_are_different_keys,
                    different_namespaces_never_share_a_counter,
                }
                sequences::{answers_equal_those_of_the_pure_functions}
                several::{
                    a_denial_charges_the_limits_that_charge_denied,
                    a_denial_extends_only_open_elastic_windows,
                    all_are_charged_or_none,
                    clear_forgets_the_keys_of_one_limit,
                    clear_namespace_forgets_the_limits_of_one_namespace,
                    peeks_and_denied_hits_create_no_entry,
                    invalid_requests_are_errors,
                    the_wait_of_a_group_is_the_longest_wait,
                }
                times::{
                    a_clean_before_a_jump_back_makes_no_wait_longer_than_the_jump,
                    a_jump_back_admits_no_hit_and_makes_no_wait_longer_than_the_jump,
                    a_jump_forward_and_back_makes_no_wait_longer_than_the_jump,
                    at_most_the_burst_passes_at_one_instant,
                    retry_after_is_exact,
                }
            }
        })+
    };
}

conformance! {
    memory: crate::stores::MemorySubject,
    atomic: crate::stores::AtomicSubject,
}

#[test]
fn public_types_can_be_sent_and_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Memory>();
    shared::<tollgate::memory::MemoryBuilder>();
    shared::<tollgate::memory::Prepared>();
    shared::<tollgate::memory::Expired>();
    shared::<tollgate::memory::KeyUsage>();
    shared::<Atomic>();
    shared::<tollgate::atomic::AtomicBuilder>();
    shared::<tollgate::atomic::Prepared>();
    shared::<tollgate::Direct>();
    shared::<Limiter<Memory>>();
    shared::<Limiter<Atomic>>();
    shared::<tollgate::limiter::At<'_, Memory>>();
    shared::<tollgate::together::Item<'_, Memory>>();
    shared::<tollgate::Decision>();
    shared::<tollgate::Outcome>();
    shared::<tollgate::Receipt>();
    shared::<tollgate::Source>();
    shared::<tollgate::Error>();
    shared::<ErrorKind>();
    shared::<tollgate::LimitError>();
    shared::<Limit>();
    shared::<tollgate::LimitBuilder>();
    shared::<tollgate::Policy>();
    shared::<Algorithm>();
    shared::<Timestamp>();
    shared::<ManualClock>();
    shared::<tollgate::SystemClock>();
    shared::<tollgate::KeyRef<'_>>();
    shared::<tollgate::key::Form>();
    shared::<tollgate::Tagged<&str, u64>>();
    shared::<tollgate::algorithm::AnyMachine>();
    shared::<tollgate::algorithm::AnyState>();
    shared::<tollgate::algorithm::Op>();
    shared::<tollgate::algorithm::Step>();
}

/// A runtime may move the future of a wait to any of its threads.
#[test]
fn the_future_of_a_wait_can_be_sent_to_another_thread() {
    fn sent<T: Send>(_: &T) {}
    let limiter = Memory::new().limiter("1/hour").unwrap();
    sent(&limiter.wait("key", 1, HOUR, |_| std::future::ready(())));
}
