//! The check that proxies ask before they pass a request on: nginx `auth_request`, HAProxy, Traefik `forwardAuth`.
//!
//! No body in either answer, the headers in both. Everything is said by the URL, because that is all that a proxy's configuration writes:
//!
//! - `limit`, `namespace`, `cost` as everywhere;
//! - `key`, or `key_header`: the header to take it from; several make a key of several parts;
//! - `on_missing=share`: requests without such a header share one key, instead of being refused;
//! - `deny_status=403`: nginx takes anything but 401 and 403 for a failure of ours.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tollgate::Parts;

use super::problem::Problem;
use super::query;
use super::question::{missing, number};
use super::reply::{self, Reply};
use crate::service::{Operation, Service};

struct Check<'a> {
    limit: Cow<'a, str>,
    namespace: Cow<'a, str>,
    cost: u64,
    /// The parts of the key; `None` for one that a header should have said.
    key: Vec<Option<Cow<'a, [u8]>>>,
    shares: bool,
    deny: StatusCode,
}

pub(super) async fn check(
    service: &Service,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response<Reply>, Problem> {
    let check = Check::read(query, headers)?;
    let bound = service.resolve(&check.namespace, &check.limit)?;
    if !check.shares && check.key.contains(&None) {
        let mut response = reply::bytes(check.deny, "".into());
        response.headers_mut().insert("x-tollgate-reason", HeaderValue::from_static("no key"));
        return Ok(without_cache(response));
    }
    let key: Vec<&[u8]> = check.key.iter().map(|part| part.as_deref().unwrap_or(b"")).collect();
    let hit = Operation::Hit(check.cost);
    let (answer, shown) = match &key[..] {
        [one] => (service.ask(&bound, one, hit).await?, bound.shown_of(one)),
        several => {
            let key = Parts(several);
            (service.ask(&bound, &key, hit).await?, bound.shown_of(&key))
        }
    };
    let status = if answer.passes() { StatusCode::OK } else { check.deny };
    let mut response = reply::bytes(status, "".into());
    reply::rate_limit(&answer, shown, response.headers_mut());
    Ok(without_cache(response))
}

fn without_cache(mut response: Response<Reply>) -> Response<Reply> {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

impl<'a> Check<'a> {
    fn read(text: &'a str, headers: &'a HeaderMap) -> Result<Check<'a>, Problem> {
        let mut limit = None;
        let mut check = Check {
            limit: "".into(),
            namespace: "".into(),
            cost: 1,
            key: Vec::new(),
            shares: false,
            deny: StatusCode::TOO_MANY_REQUESTS,
        };
        for pair in query::pairs(text) {
            let (name, value) = pair?;
            match &*name {
                "limit" => limit = Some(value),
                "namespace" => check.namespace = value,
                "cost" => check.cost = number("cost", &value)?,
                "key" => check.key.push(Some(match value {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                })),
                "key_header" => {
                    let written = headers.get(&*value).map(HeaderValue::as_bytes);
                    check.key.push(written.filter(|key| !key.is_empty()).map(Cow::Borrowed));
                }
                "on_missing" => check.shares = shares(&value)?,
                "deny_status" => check.deny = deny_status(&value)?,
                _ => {
                    return Err(Problem::wrong(format!(
                        "parameter {name:?}: unknown; expected limit, namespace, cost, key, key_header, on_missing or deny_status"
                    )));
                }
            }
        }
        check.limit = limit.ok_or_else(|| missing("limit"))?;
        if check.key.is_empty() {
            return Err(missing("key"));
        }
        Ok(check)
    }
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
