//! The rules for every in-process store. They are generic over [`Subject`], and one line adds all
//! of them for a store.

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

/// A Friday in 2026. Tests do not begin at the epoch, where a lost time would not be noticed.
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
    /// Room for all keys, never cleaned by callers.
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

/// A store under test, and what the rules must know about it.
pub(crate) trait Subject: Store + std::fmt::Debug {
    /// How many times the capacity of a limit it can count before it may saturate.
    const COUNTS: u64;

    fn build(settings: Settings) -> Self;
    /// Forgets fresh keys by the store's clock. Returns the number of forgotten keys.
    fn sweep(&self) -> usize;
    /// The number of keys with an entry.
    fn entries(&self) -> usize;
    /// The number of limits.
    fn known_limits(&self) -> usize;
    /// Hits decided on an overflow state.
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

/// A store at [`START`] and its clock.
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

/// One limiter for each algorithm that the store supports, all with this quota and period.
pub(crate) fn limiters<S: Subject>(store: &S, quota: u64, period: Duration) -> Vec<Limiter<S>> {
    let limit = |algorithm| Limit::new(quota, period).algorithm(algorithm);
    let all = Algorithm::ALL.map(|algorithm| Limiter::new(store, "", limit(algorithm)));
    all.into_iter().filter_map(supported).collect()
}

/// A limiter that the store supports; `None` if it refuses the limit as unsupported.
pub(crate) fn supported<T>(prepared: Result<T, tollgate::Error>) -> Option<T> {
    match prepared {
        Ok(prepared) => Some(prepared),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            None
        }
    }
}

/// How many of `tries` hits of cost 1 pass.
pub(crate) fn admitted<S: Store>(limiter: &Limiter<S>, key: impl Key, tries: usize) -> usize {
    (0..tries).filter(|_| limiter.hit(&key).allowed()).count()
}

/// One test for each rule of a module, for one store.
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

/// All rules, for each store.
macro_rules! conformance {
    ($($name:ident: $store:ty),+ $(,)?) => {
        $(mod $name {
            rules! { $store:
                allocation::{
                    keys_take_bounded_room_whatever_their_length,
                    known_keys_are_decided_without_allocation,
                    policies_are_decided_with_one_allocation,
                }
                bound::{
                    a_clean_gives_room_to_new_keys,
                    a_forgotten_limit_keeps_its_shared_state,
                    a_hit_denied_at_the_bound_says_so,
                    a_new_key_starts_from_the_shared_state,
                    a_peek_ahead_of_time_leaves_the_shared_state,
                    a_peek_at_the_bound_shows_what_a_hit_would_get,
                    a_refund_reaches_the_shared_state,
                    a_refused_group_leaves_the_shared_state_as_it_was,
                    a_stale_slot_goes_to_a_new_key_in_time,
                    endless_fresh_keys_neither_grow_the_store_nor_push_others_out,
                    known_keys_stay_exact_and_unknown_ones_share_one_state,
                    the_shared_state_is_one_for_each_limit,
                }
                expiry::{
                    a_state_lives_until_it_equals_a_fresh_one,
                    a_state_that_has_run_out_acts_as_a_fresh_one,
                    cleaning_changes_no_answer,
                    only_fresh_states_are_cleaned,
                }
                housekeeping::{
                    a_made_up_time_does_not_stop_the_cleaning,
                    cleaning_returns_the_number_of_forgotten_keys,
                    hits_clean_the_stale_keys_of_other_limits,
                    hits_clean_when_the_period_has_passed,
                    hits_forget_unused_keys_at_their_age,
                    keys_in_use_outlive_their_age,
                    limits_that_were_used_once_are_forgotten,
                    no_limit_in_use_is_dropped_at_the_bound,
                    unused_keys_go_at_their_age,
                    without_an_age_unused_keys_stay,
                }
                keys::{
                    a_changed_quota_keeps_the_counters_of_a_named_limit,
                    a_limit_is_one_counter_alone_and_in_policies,
                    a_long_key_is_one_counter_by_every_call,
                    different_keys_never_share_a_counter,
                    different_limits_never_share_a_counter,
                    integers_and_addresses_are_their_text,
                    long_keys_differ_in_any_byte,
                    namespaces_are_apart,
                }
                sequences::{answers_equal_the_definition}
                several::{
                    a_denial_charges_the_limits_that_charge_denied,
                    a_denial_moves_the_end_of_live_elastic_windows_only,
                    all_are_charged_or_none,
                    clear_forgets_the_keys_of_one_limit,
                    clear_namespace_forgets_the_limits_of_one_namespace,
                    peeks_and_denied_hits_take_no_room,
                    invalid_requests_are_errors,
                    the_longest_wait_counts,
                }
                times::{
                    a_clean_ahead_of_a_jump_back_locks_no_longer,
                    a_jump_back_admits_nothing_and_locks_no_longer,
                    a_jump_forward_and_back_locks_no_longer,
                    no_more_than_the_burst_at_one_instant,
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
fn public_types_can_be_sent_and_shared() {
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

/// The future of a wait can move to any thread of a runtime.
#[test]
fn the_future_of_a_wait_is_send() {
    fn sent<T: Send>(_: &T) {}
    let limiter = Memory::new().limiter("1/hour").unwrap();
    sent(&limiter.wait("key", 1, HOUR, |_| std::future::ready(())));
}
