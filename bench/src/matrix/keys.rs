//! The keys of the matrix, by type.

use rate_net::RateLimiter;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A type of keys. Peers that are generic over the key get this type itself.
pub(crate) trait CellKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// The key as tollgate's users pass it.
    type Ours<'a>: tollgate::Key;

    /// The key of number `n`.
    fn make(n: u64) -> Self;

    fn ours(&self) -> Self::Ours<'_>;

    /// A hit on rate-net, which has a key type of its own.
    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool;
}

impl CellKey for u64 {
    type Ours<'a> = u64;

    fn make(n: u64) -> Self {
        n
    }

    fn ours(&self) -> u64 {
        *self
    }

    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        limiter.check(*self).is_allow()
    }
}

impl CellKey for Ipv4Addr {
    type Ours<'a> = Ipv4Addr;

    fn make(n: u64) -> Self {
        Ipv4Addr::from_bits(0x0a00_0000 + n as u32)
    }

    fn ours(&self) -> Ipv4Addr {
        *self
    }

    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        limiter.check(*self).is_allow()
    }
}

impl CellKey for Ipv6Addr {
    type Ours<'a> = Ipv6Addr;

    /// Each in a network of its own, as clients are.
    fn make(n: u64) -> Self {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64 | 1)
    }

    fn ours(&self) -> Ipv6Addr {
        *self
    }

    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        limiter.check(*self).is_allow()
    }
}

impl CellKey for String {
    type Ours<'a> = &'a str;

    fn make(n: u64) -> Self {
        format!("user:{n}")
    }

    fn ours(&self) -> &str {
        self
    }

    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        limiter.check_bytes(self).is_allow()
    }
}

/// A text of 71 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Long(String);

impl CellKey for Long {
    type Ours<'a> = &'a str;

    fn make(n: u64) -> Self {
        Long(format!("organisation:tollgate-benchmarks:environment:production:api-key:{n:08}"))
    }

    fn ours(&self) -> &str {
        &self.0
    }

    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        limiter.check_bytes(&self.0).is_allow()
    }
}

/// A number and a text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair(u64, String);

impl CellKey for Pair {
    type Ours<'a> = (u64, &'a str);

    fn make(n: u64) -> Self {
        Pair(n, "/api/v1/items".to_owned())
    }

    fn ours(&self) -> (u64, &str) {
        (self.0, &self.1)
    }

    /// It has no tuples: both parts as bytes.
    fn hit_rate_net(&self, limiter: &RateLimiter) -> bool {
        let mut bytes = [0; 32];
        let length = 8 + self.1.len();
        bytes[..8].copy_from_slice(&self.0.to_be_bytes());
        bytes[8..length].copy_from_slice(self.1.as_bytes());
        limiter.check_bytes(&bytes[..length]).is_allow()
    }
}
