//! The check that proxies make before they pass a request on: nginx `auth_request`, HAProxy,
//! Traefik `forwardAuth`.
//!
//! Decisions have headers and no body. The URL holds all parameters, because a proxy's
//! configuration can write nothing else:
//!
//! - `limit`, `namespace`, `cost` as everywhere;
//! - `key`, or `key_header`: the header to take it from; several make a key of several parts;
//! - `on_missing=share`: requests whose key is empty share one, instead of being refused;
//! - `deny_status=403`: nginx treats any status but 401 and 403 as a failure of the check.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tollgate::Parts;

use super::key_request::{missing, number};
use super::problem::Problem;
use super::query;
use super::reply::{self, Reply};
use crate::service::{Operation, Service};

struct Check<'a> {
    limit: Cow<'a, str>,
    namespace: Cow<'a, str>,
    cost: u64,
    /// The parts of the key; `Err` for one that is missing, with the parameter that should give it.
    key: Vec<Result<Cow<'a, [u8]>, String>>,
    shares: bool,
    deny: StatusCode,
}

pub(super) async fn check(
    service: &Service,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response<Reply>, Problem> {
    let check = Check::read(query, headers)?;
    let rule = service.resolve(&check.namespace, &check.limit)?;
    let missing = check.key.iter().find_map(|part| part.as_ref().err());
    if let Some(missing) = missing.filter(|_| !check.shares) {
        return Ok(without_key(check.deny, missing));
    }
    let key: Vec<&[u8]> = check.key.iter().map(|part| part.as_deref().unwrap_or(b"")).collect();
    let hit = Operation::Hit(check.cost);
    let decision = match &key[..] {
        [one] => service.execute(&rule, one, hit).await?,
        several => service.execute(&rule, Parts(several), hit).await?,
    };
    let status = if decision.passes() { StatusCode::OK } else { check.deny };
    let mut response = reply::bytes(status, "".into());
    reply::rate_limit(&decision, response.headers_mut());
    Ok(without_cache(response))
}

/// Refuses a request without a key. The reason is also in a header, because few proxies show the
/// body.
fn without_key(status: StatusCode, missing: &str) -> Response<Reply> {
    let detail = format!("no key: {missing}; on_missing=share lets such requests share one");
    let mut response = Problem::new(status, &*detail).response();
    let reason = HeaderValue::try_from(format!("no key: {missing}"));
    let reason = reason.unwrap_or(HeaderValue::from_static("no key"));
    response.headers_mut().insert("x-tollgate-reason", reason);
    response
}

fn without_cache(mut response: Response<Reply>) -> Response<Reply> {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

impl<'a> Check<'a> {
    fn read(text: &'a str, headers: &'a HeaderMap) -> Result<Check<'a>, Problem> {
        let (mut limit, mut namespace, mut cost) = (None, None, None);
        let (mut on_missing, mut deny, mut key) = (None, None, Vec::new());
        for (name, value) in query::raw_pairs(text) {
            match &*query::text(name)? {
                "key" if value.is_empty() => key.push(Err("key is empty".to_owned())),
                "key" => key.push(Ok(query::bytes(value))),
                "key_header" => key.push(part_of(headers, &query::text(value)?)),
                "limit" => query::put(&mut limit, "limit", query::text(value)?)?,
                "namespace" => query::put(&mut namespace, "namespace", query::text(value)?)?,
                "cost" => {
                    query::put(&mut cost, "cost", number("cost", &query::text(value)?)?)?;
                }
                "on_missing" => {
                    query::put(&mut on_missing, "on_missing", shares(&query::text(value)?)?)?;
                }
                "deny_status" => {
                    query::put(&mut deny, "deny_status", deny_status(&query::text(value)?)?)?;
                }
                name => {
                    return Err(Problem::wrong(format!(
                        "parameter {name:?}: unknown; expected limit, namespace, cost, key, key_header, on_missing or deny_status"
                    )));
                }
            }
        }
        if key.is_empty() {
            return Err(missing("key"));
        }
        Ok(Check {
            limit: limit.ok_or_else(|| missing("limit"))?,
            namespace: namespace.unwrap_or_default(),
            cost: cost.unwrap_or(1),
            key,
            shares: on_missing.unwrap_or(false),
            deny: deny.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        })
    }
}

/// The value of a header as a part of the key.
fn part_of<'a>(headers: &'a HeaderMap, name: &str) -> Result<Cow<'a, [u8]>, String> {
    let value = headers.get(name).map(HeaderValue::as_bytes).filter(|value| !value.is_empty());
    value.map(Cow::Borrowed).ok_or_else(|| format!("header {name} is missing or empty"))
}

fn shares(value: &str) -> Result<bool, Problem> {
    match value {
        "share" => Ok(true),
        "reject" => Ok(false),
        _ => Err(Problem::wrong(format!("on_missing {value:?}: must be share or reject"))),
    }
}

fn deny_status(value: &str) -> Result<StatusCode, Problem> {
    let status = value.parse::<u16>().ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.filter(|status| status.is_client_error() || status.is_server_error()).ok_or_else(|| {
        Problem::wrong(format!("deny_status {value:?}: must be a status from 400 to 599"))
    })
}
