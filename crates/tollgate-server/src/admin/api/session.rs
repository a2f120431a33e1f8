//! `/api/v1/session`: logs a browser in and out, and returns the name and scope of the caller.

use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Admin;
use super::super::access::Caller;
use super::{json_body, reply};
use crate::auth::TokenScope;
use crate::http::{Browsers, Problem, Reply};
use crate::observe::Protocol;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

pub(super) async fn answer(
    admin: &Admin,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Problem> {
    match *request.method() {
        Method::POST => {
            let (_, body) = json_body(admin, request).await?;
            // The error of the parser would repeat a part of the body, which may be a token.
            let login: Login = serde_json::from_slice(&body)
                .map_err(|_| Problem::wrong("body: expected {\"token\":\"...\"}"))?;
            log_in(admin, login.token.trim())
        }
        Method::DELETE => {
            if let Some(problem) = Browsers::refuse_foreign(&request) {
                return Err(problem);
            }
            let mut response = reply(&nobody(admin));
            let cookie = admin.access.log_out(request.headers())?;
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            Ok(response)
        }
        _ => Ok(reply(&match admin.access.caller(&request) {
            Ok(Caller { name, scope, .. }) => somebody(admin, &name, scope),
            Err(_) => nobody(admin),
        })),
    }
}

fn log_in(admin: &Admin, token: &str) -> Result<Response<Reply>, Problem> {
    let (owner, cookie) = admin
        .access
        .log_in(token)
        .inspect_err(|_| admin.service.observer().port(Protocol::Admin).refuse())?;
    tracing::info!(token = owner.name, "logged in to the dashboard");
    let mut response = reply(&somebody(admin, &owner.name, owner.scope));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

fn somebody(admin: &Admin, name: &str, scope: TokenScope) -> Value {
    json!({
        "admitted": true,
        "token_needed": !admin.access.is_open(),
        "name": name,
        "scope": scope,
    })
}

fn nobody(admin: &Admin) -> Value {
    json!({"admitted": false, "token_needed": !admin.access.is_open()})
}
