//! `/bans` and `/api/v1/bans`: the bans that this server knows, and the end of one by an operator.

use std::borrow::Cow;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tollgate::shared::percent_decoded;
use tollgate::{Clock as _, SystemClock};

use super::super::access::Caller;
use super::super::{Admin, Body, keys, whole};
use super::key;
use crate::auth::TokenScope;
use crate::http::{Browsers, KeyText, Problem, of_json, query};
use crate::observe::{KeyId, MOST_BANS, text_of};
use crate::service::Service;

const PATH: &str = "/bans";

/// Whether this module answers requests for a path.
pub(in super::super) fn has(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers `GET /bans` and `DELETE /bans/{rule}/{key}`.
pub(in super::super) async fn answer(
    admin: &Admin,
    caller: Option<Caller>,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let Some(caller) = caller else {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "a token is needed"));
    };
    let uri = request.uri();
    let (path, query) = (uri.path(), uri.query().unwrap_or(""));
    match (request.method(), path == PATH) {
        (&Method::GET | &Method::HEAD, true) => {
            let bans = list(&admin.service, query)?;
            Ok(whole(of_json(StatusCode::OK, bans.to_string())))
        }
        (&Method::DELETE, false) => {
            Browsers::refuse_foreign(request).map_or(Ok(()), Err)?;
            let lifted = lift(&admin.service, &caller, path, query).await?;
            Ok(whole(of_json(StatusCode::OK, lifted.to_string())))
        }
        (method, all) => {
            let expected = if all { "GET" } else { "DELETE" };
            let detail = format!("method {method}: expected {expected}");
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
        }
    }
}

/// The keys that this server found banned, those whose bans end last first.
pub(super) fn list(service: &Service, query: &str) -> Result<Value, Problem> {
    let most = keys::most(query)?;
    let now = SystemClock::new().now();
    let mut all = Vec::new();
    for stats in service.observer().rules() {
        all.extend(stats.bans(now).into_iter().map(|ban| (stats.clone(), ban)));
    }
    all.sort_by_key(|(_, (_, end))| std::cmp::Reverse(*end));
    let bans: Vec<_> = all
        .iter()
        .take(most)
        .map(|(stats, (key, end))| {
            let key = key.as_key_ref();
            json!({
                "namespace": stats.namespace(),
                "domain": stats.domain(),
                "rule": stats.name(),
                "key": text_of(key),
                "id": KeyId::of(key),
                "ends_at_us": end.as_micros(),
                "ends_in_us": key::micros(end.since(now)),
            })
        })
        .collect();
    Ok(json!({ "bans": bans, "total": all.len(), "most_of_a_rule": MOST_BANS }))
}

/// Lifts the ban of the key in a path, and forgets the counts of the key. Segments after the key
/// are further parts of it. The namespace or the domain of the rule is a parameter.
async fn lift(
    service: &Service,
    caller: &Caller,
    path: &str,
    query: &str,
) -> Result<Value, Problem> {
    if caller.scope < TokenScope::Operate {
        let detail = "lifting a ban: needs a token of scope operate; this caller may only read";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let (mut namespace, mut domain) = (Cow::default(), Cow::default());
    for pair in query::pairs(query) {
        let (name, value) = pair?;
        match &*name {
            "namespace" => namespace = value,
            "domain" => domain = value,
            _ => {
                let wrong = format!("parameter {name:?}: unknown; known are namespace, domain");
                return Err(Problem::wrong(wrong));
            }
        }
    }
    let segments = path.trim_start_matches(PATH).split('/').skip(1).map(decoded);
    let mut segments = segments.collect::<Result<Vec<_>, _>>()?.into_iter();
    let rule = segments.next().unwrap_or_default();
    let mut parts: Vec<Cow<'_, str>> = segments.map(Cow::Owned).collect();
    let key = match (parts.len(), domain.is_empty()) {
        (0, _) => return Err(Problem::wrong("path: expected /bans/{rule}/{key}")),
        (1, true) => KeyText::One(parts.remove(0)),
        _ => KeyText::Several(parts),
    };
    let target = key::Request::of(namespace, domain, rule.into(), key);
    let found = target.find(service)?;
    let was_there = found.rule.reset(&found).await?;
    tracing::info!(
        token = caller.name,
        action = "lift",
        namespace = found.namespace,
        domain = found.domain,
        rule = found.rule.name(),
        "an operator lifted the ban of a key"
    );
    Ok(json!({ "lifted": was_there }))
}

fn decoded(segment: &str) -> Result<String, Problem> {
    let text = percent_decoded(segment.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        Problem::wrong("path: % must be followed by two hexadecimal digits of UTF-8".to_owned())
    })
}
