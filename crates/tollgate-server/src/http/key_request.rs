//! Reads requests about keys, from the query or from JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate::{Key, KeyRef, Parts};

use super::problem::Problem;
use super::query;
use crate::service::{Receipts, RequestError};

/// A request about one key of one limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyRequest<'a> {
    /// The name of a rule, or a limit as text.
    #[serde(borrow)]
    pub(super) limit: Cow<'a, str>,
    /// The key.
    #[serde(borrow)]
    pub(super) key: KeyText<'a>,
    /// Units. Default: 1.
    pub(super) cost: Option<u64>,
    /// The receipts of a refund. `null` is an error: a client that has lost its receipt must not make
    /// a correction.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(super) receipt: Option<ReceiptTexts<'a>>,
    /// The units to give back for each receipt. Default: all that it charged.
    pub(super) units: Option<u64>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
    /// The operation, in lists.
    #[serde(default)]
    pub(super) operation: Option<Verb>,
}

/// An operation on a key: each is a path, and a value of `operation` in a batch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    Hit,
    Peek,
    Take,
    Charge,
    Refund,
    Set,
    Reset,
    Usage,
}

/// A key: a text, or several as separate parts. In JSON a whole number means its digits.
#[derive(Debug)]
pub(crate) enum KeyText<'a> {
    One(Cow<'a, str>),
    Several(Vec<Cow<'a, str>>),
}

impl Key for KeyText<'_> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            KeyText::One(text) => f(KeyRef::plain(text.as_bytes())),
            KeyText::Several(parts) => Parts(parts).with_key(f),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for KeyText<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(KeyVisitor { list: true })
    }
}

/// A part of a key that is a list.
struct Part<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        match json.deserialize_any(KeyVisitor { list: false })? {
            KeyText::One(text) => Ok(Part(text)),
            KeyText::Several(_) => Err(de::Error::custom("key: a list within a list")),
        }
    }
}

struct KeyVisitor {
    list: bool,
}

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = KeyText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a whole number as the key")?;
        if self.list { f.write_str(", or a list of them") } else { Ok(()) }
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<KeyText<'de>, E> {
        Ok(KeyText::One(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<KeyText<'de>, E> {
        Ok(KeyText::One(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<KeyText<'de>, E> {
        Ok(KeyText::One(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<KeyText<'de>, E> {
        Ok(KeyText::One(Cow::Owned(number.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeyText<'de>, A::Error> {
        if !self.list {
            return Err(de::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut parts = Vec::new();
        while let Some(Part(text)) = list.next_element()? {
            parts.push(text);
        }
        Ok(KeyText::Several(parts))
    }
}

/// The texts of receipts: one, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "receipt: expected a text or a list of texts")]
pub(super) enum ReceiptTexts<'a> {
    One(#[serde(borrow)] Cow<'a, str>),
    Several(Vec<String>),
}

fn not_null<'de: 'a, 'a, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<ReceiptTexts<'a>>, D::Error> {
    ReceiptTexts::deserialize(json).map(Some)
}

impl KeyRequest<'_> {
    /// Refuses fields that the operation does not have.
    pub(super) fn check(&self, verb: Verb) -> Result<(), Problem> {
        match (&self.receipt, self.units, self.cost) {
            (None, Some(units), _) => Err(Problem::wrong(format!(
                "units {units}: only with a receipt; without one, refund takes cost"
            ))),
            (Some(_), ..) if verb != Verb::Refund => {
                Err(Problem::wrong("receipt: only refund takes it"))
            }
            (Some(_), _, Some(cost)) => {
                Err(Problem::wrong(format!("cost {cost}: not with a receipt, which takes units")))
            }
            (None, None, _) | (Some(_), _, None) => Ok(()),
        }
    }

    /// The receipts of a refund.
    pub(super) fn receipts(&self) -> Result<Option<Receipts>, RequestError> {
        let receipts = match &self.receipt {
            None => return Ok(None),
            Some(ReceiptTexts::One(text)) => Receipts::read([&**text], self.units)?,
            Some(ReceiptTexts::Several(texts)) => {
                Receipts::read(texts.iter().map(String::as_str), self.units)?
            }
        };
        Ok(Some(receipts))
    }
}

/// A list of requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyRequests<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<KeyRequest<'a>>,
}

/// The most items of a list.
const MAX_ITEMS: usize = 1_000;

impl<'a> KeyRequest<'a> {
    /// Reads the body if there is one, else the query.
    pub(super) fn read(query: &'a str, body: &'a [u8]) -> Result<KeyRequest<'a>, Problem> {
        if body.is_empty() { KeyRequest::from_query(query) } else { json(body) }
    }

    fn from_query(text: &'a str) -> Result<KeyRequest<'a>, Problem> {
        let (mut limit, mut keys, mut cost, mut namespace) = (None, Vec::new(), None, None);
        let (mut receipts, mut units) = (Vec::new(), None);
        for pair in query::pairs(text) {
            let (name, value) = pair?;
            match &*name {
                "limit" => query::put(&mut limit, "limit", value)?,
                "key" if value.is_empty() => {
                    return Err(Problem::wrong(
                        "key: empty; a JSON body may have an empty key, a query may not",
                    ));
                }
                "key" => keys.push(value),
                "cost" => query::put(&mut cost, "cost", number("cost", &value)?)?,
                "namespace" => query::put(&mut namespace, "namespace", value)?,
                "receipt" => receipts.push(value.into_owned()),
                "units" => query::put(&mut units, "units", number("units", &value)?)?,
                _ => {
                    return Err(Problem::wrong(format!(
                        "parameter {name:?}: unknown; expected limit, key, cost, namespace, receipt or units"
                    )));
                }
            }
        }
        let limit = limit.ok_or_else(|| missing("limit"))?;
        let key = match keys.len() {
            0 => return Err(missing("key")),
            1 => KeyText::One(keys.swap_remove(0)),
            _ => KeyText::Several(keys),
        };
        let namespace = namespace.unwrap_or_default();
        let receipt = (!receipts.is_empty()).then_some(ReceiptTexts::Several(receipts));
        Ok(KeyRequest { limit, key, cost, receipt, units, namespace, operation: None })
    }
}

impl<'a> KeyRequests<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<KeyRequests<'a>, Problem> {
        let requests: KeyRequests<'_> = json(body)?;
        match requests.items.len() {
            0 => Err(Problem::wrong("items: empty; at least one is expected")),
            1..=MAX_ITEMS => Ok(requests),
            many => {
                Err(Problem::wrong(format!("items: {many} of them; at most {MAX_ITEMS} are read")))
            }
        }
    }
}

pub(super) fn missing(name: &str) -> Problem {
    Problem::wrong(format!(
        "{name}: missing; expected ?limit=10/second&key=user:42 or a JSON body with both"
    ))
}

pub(super) fn number(name: &str, value: &str) -> Result<u64, Problem> {
    value
        .parse()
        .map_err(|_| Problem::wrong(format!("{name} {value:?}: must be a whole number from 0")))
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::wrong(format!("body: {error}")))
}
