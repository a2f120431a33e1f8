//! Exact rate limiting: may this key do this now, and if not, when?
//!
//! ```
//! use tollgate::{Limit, Memory};
//!
//! let limiter = Memory::new().limiter(Limit::per_second(10).burst(20))?;
//! let decision = limiter.hit("user:42");
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), 19);
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! - [`Limit`] and [`Policy`] are plain data. They come from code, from text
//!   (`"100/minute token-bucket burst=20"`) or from serde.
//! - [`Memory`] stores the keys themselves and supports all algorithms that count hits. [`Atomic`] stores
//!   only a fingerprint of each key; it is for many keys at high speed in little memory. [`Direct`]
//!   is one limit without keys.
//! - A [`Decision`] contains all figures of the answer, all computed from one state. A denial is a
//!   value, never an error.
//! - Internal functions never read a clock: the time is an argument. [`Limiter::at`] takes the time
//!   from the caller, and the [`Clock`] of a store can be replaced.
//!
//! The guides help to choose an algorithm and a store. [`algorithm`] states what each algorithm
//! guarantees.

#![deny(unsafe_code)]

pub mod algorithm;
#[cfg(not(loom))]
pub mod atomic;
#[cfg(loom)]
#[path = "atomic/model.rs"]
mod atomic;
pub mod calendar;
pub mod hold;
pub mod key;
pub mod limiter;
pub mod memory;
pub mod shared;
pub mod store;
pub mod text;
pub mod together;

mod address;
#[doc(hidden)]
pub mod base64;
mod clock;
mod decision;
#[cfg(not(loom))]
mod direct;
mod error;
#[doc(hidden)]
pub mod keyed;
#[doc(hidden)]
pub mod leb128;
mod limit;
mod outcome;
mod policy;

mod registry;
#[cfg(feature = "serde")]
mod serde;
mod time;
mod wait;
mod wire_receipt;
mod wire_refund;

pub use address::client_address;
#[cfg(not(loom))]
pub use atomic::Atomic;
pub use calendar::{Calendar, CalendarUnit, Weekday};
pub use clock::{Clock, ManualClock, SystemClock};
pub use decision::Decision;
#[cfg(not(loom))]
pub use direct::{Direct, DirectAt};
pub use error::{Error, ErrorKind};
pub use key::{Key, KeyRef, OwnedKey, Parts, Tagged};
pub use limit::{
    Algorithm, Description, Limit, LimitBuilder, LimitError, MAX_CONCURRENT, MAX_QUOTA,
};
pub use limiter::Limiter;
pub use memory::Memory;
pub use outcome::{NoRetry, Outcome, Receipt, Source};
pub use policy::{MAX_LIMITS, Policy};

pub use store::Store;
pub use time::{Timestamp, seconds_up};
pub use together::{hit_all, hit_all_at, refund_all};
pub use wire_receipt::WireReceipt;
pub use wire_refund::WireRefund;

/// The default for the largest number of keys in a store.
const DEFAULT_MAX_KEYS: usize = 10_000_000;

/// The default for the largest number of limits in a store.
const DEFAULT_MAX_LIMITS: usize = 100_000;

/// The default interval between two cleanings of a store.
const DEFAULT_CLEAN_PERIOD: std::time::Duration = std::time::Duration::from_secs(60);

#[cfg(doctest)]
#[doc = include_str!("../../../guides/choose-an-algorithm.md")]
mod choose_an_algorithm {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/ban-repeat-offenders.md")]
mod ban_repeat_offenders {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/choose-a-store.md")]
mod choose_a_store {}
#[cfg(all(doctest, feature = "calendar"))]
#[doc = include_str!("../../../guides/quotas-by-calendar.md")]
mod quotas_by_calendar {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/at-most-n-at-a-time.md")]
mod at_most_n_at_a_time {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/costs-known-at-the-end.md")]
mod costs_known_at_the_end {}
#[cfg(doctest)]
#[doc = include_str!("../../../guides/coming-from.md")]
mod coming_from {}
