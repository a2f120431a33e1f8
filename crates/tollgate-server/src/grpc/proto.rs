//! Messages of Envoy's rate limit service, as in `proto/`: the names and numbers are Envoy's.

use prost_types::{Duration, Struct};

/// The request: may these descriptors pass?
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitRequest {
    /// The domain of the rules.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The descriptors; the request is over the limit if any of them is.
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// The cost of descriptors that have none; 0 is 1.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// Keys and values, in order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitDescriptor {
    /// At least one.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// A limit that replaces the rule of the configuration.
    #[prost(message, optional, tag = "2")]
    pub limit: Option<RateLimitOverride>,
    /// The cost, instead of the request's. 0 is a peek.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    /// Whether the cost is given back instead of charged.
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// A key and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    /// Not empty.
    #[prost(string, tag = "1")]
    pub key: String,
    /// May be empty. `string` in Envoy's file, which is the same on the wire; Envoy puts header
    /// values here, and those may be any bytes. Rejecting them would let such requests pass.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// A limit that comes with a request.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct RateLimitOverride {
    /// The quota of the limit; 0 denies every request.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// `envoy.type.v3.RateLimitUnit`: those of [`Unit`] but the week.
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
}

/// The answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitResponse {
    /// Never [`Code::Unknown`]: Envoy lets that pass whatever its setting for errors is.
    #[prost(enumeration = "Code", tag = "1")]
    pub overall_code: i32,
    /// The status of each descriptor, in order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    /// Headers for the client, whether the request passes or not.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// Headers for the server behind the proxy.
    #[prost(message, repeated, tag = "4")]
    pub request_headers_to_add: Vec<HeaderValue>,
    /// The body of the response to a denied request.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
    /// Data for later filters and logs of the proxy.
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<Struct>,
}

/// The answer for one descriptor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DescriptorStatus {
    /// Never [`Code::Unknown`].
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// The limit, if the descriptor has one.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    /// Saturates at the largest number.
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    /// Whole seconds: Envoy reads no more.
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// A limit as Envoy shows it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimit {
    /// Saturates at the largest number.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// The unit of the period; [`Unit::Unknown`] if the period is none of the units.
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
    /// The name of the limit.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValue {
    /// The name, in lower case.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value of the header.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Whether a request or a descriptor may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// Never sent.
    Unknown = 0,
    /// It may pass.
    Ok = 1,
    /// It may not pass.
    OverLimit = 2,
}

/// A period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names of the variants say what they are")]
pub enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    Week = 7,
}

/// The length of each unit in seconds.
const UNITS: [(Unit, u64); 7] = [
    (Unit::Second, 1),
    (Unit::Minute, 60),
    (Unit::Hour, 3_600),
    (Unit::Day, 86_400),
    (Unit::Week, 7 * 86_400),
    (Unit::Month, 30 * 86_400),
    (Unit::Year, 365 * 86_400),
];

impl Unit {
    /// The unit that is this long, if there is one.
    #[must_use]
    pub fn from_period(period: std::time::Duration) -> Unit {
        let same = |(_, seconds): &&(Unit, u64)| std::time::Duration::from_secs(*seconds) == period;
        UNITS.iter().find(same).map_or(Unit::Unknown, |(unit, _)| *unit)
    }

    /// The length of the unit. `None` if it is not known.
    #[must_use]
    pub fn period(self) -> Option<std::time::Duration> {
        let own = UNITS.iter().find(|(unit, _)| *unit == self);
        own.map(|(_, seconds)| std::time::Duration::from_secs(*seconds))
    }
}
