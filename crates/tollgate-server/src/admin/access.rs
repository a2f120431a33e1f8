//! Decides who calls the admin port: a program with a token, a browser with a session, or, on a
//! port without tokens, anybody who can reach it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, StatusCode, header};

use super::session::{LIFETIME, Sessions};
use crate::auth::{ClientGate, Hash, Owner, TokenScope};
use crate::http::{Browsers, Problem};
use crate::net::Port;
use crate::seconds::unix_now;

/// The rules of access of the admin port.
#[derive(Debug)]
pub(super) struct Access {
    gate: Arc<ClientGate>,
    browsers: Browsers,
    sessions: Sessions,
    /// The scope of callers without a token, while the gate is open.
    anonymous: TokenScope,
    secure: bool,
    cookie: String,
}

/// A caller that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The name of the token; empty on a port without tokens.
    pub(super) name: String,
    pub(super) scope: TokenScope,
    credential: Credential,
}

/// How a caller was admitted.
#[derive(Clone, Copy, Debug)]
enum Credential {
    Nothing,
    Token(Hash),
    Session(Hash),
}

/// Why a caller is not admitted.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is no valid token or session.
    Unauthorized,
    /// The request comes from a page of another origin.
    Foreign(Problem),
}

impl Access {
    pub(super) fn new(port: &Port) -> Access {
        let address = port.address().ok();
        let is_local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        // A port that is open to other machines lets them read, as it always did, but not change
        // counts.
        let trusted = is_local || port.asks_clients();
        // Browsers send a cookie to all ports of a host, so each server of a machine needs a cookie
        // with a name of its own.
        let cookie = format!("tollgate_{}", address.map_or(0, |address| address.port()));
        Access {
            gate: port.gate(),
            browsers: Browsers::new(port),
            sessions: Sessions::default(),
            anonymous: if trusted { TokenScope::Operate } else { TokenScope::Read },
            secure: port.has_tls(),
            cookie,
        }
    }

    /// Whether no caller needs a token.
    pub(super) fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    /// The caller of a request.
    pub(super) fn caller<B>(&self, request: &Request<B>) -> Result<Caller, Refused> {
        if self.gate.is_open() {
            return match self.browsers.refuse(request) {
                Some(problem) => Err(Refused::Foreign(problem)),
                None => Ok(Caller {
                    name: String::new(),
                    scope: self.anonymous,
                    credential: Credential::Nothing,
                }),
            };
        }
        let headers = request.headers();
        if headers.contains_key(header::AUTHORIZATION) {
            let owner = self.gate.bearer(headers).ok_or(Refused::Unauthorized)?;
            let credential = Credential::Token(owner.hash);
            return Ok(Caller { name: owner.name, scope: owner.scope, credential });
        }
        let session = self.session(headers).ok_or(Refused::Unauthorized)?;
        let owner = self.sessions.owner(&session, &self.gate, unix_now());
        let owner = owner.ok_or(Refused::Unauthorized)?;
        match Browsers::refuse_foreign(request) {
            Some(problem) => Err(Refused::Foreign(problem)),
            None => {
                let credential = Credential::Session(session);
                Ok(Caller { name: owner.name, scope: owner.scope, credential })
            }
        }
    }

    /// Whether a caller that was admitted earlier would still be admitted.
    pub(super) fn still_admits(&self, caller: &Caller) -> bool {
        match &caller.credential {
            Credential::Nothing => self.gate.is_open(),
            Credential::Token(hash) => self.gate.owner(hash).is_some(),
            Credential::Session(id) => self.sessions.owner(id, &self.gate, unix_now()).is_some(),
        }
    }

    /// Begins a session for the owner of a token. Returns the owner and the cookie.
    pub(super) fn log_in(&self, token: &str) -> Result<(Owner, HeaderValue), Problem> {
        let wrong = || Problem::new(StatusCode::UNAUTHORIZED, "token: not one of this server");
        let owner = self.gate.owner(&Hash::from_token(token.as_bytes())).ok_or_else(wrong)?;
        let id = self.sessions.begin(&owner, unix_now());
        let id = id.map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error))?;
        Ok((owner, self.cookie(&id, LIFETIME)?))
    }

    /// Ends the session of a request. Returns a cookie that replaces its own.
    pub(super) fn log_out(&self, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
        if let Some(session) = self.session(headers) {
            self.sessions.end(&session);
        }
        self.cookie("", 0)
    }

    fn cookie(&self, id: &str, seconds: u64) -> Result<HeaderValue, Problem> {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!(
            "{}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
            self.cookie
        );
        HeaderValue::try_from(text)
            .map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
    }

    /// The hash of the session that the cookie of a request names.
    fn session(&self, headers: &HeaderMap) -> Option<Hash> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs =
            cookies.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
        let id = pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })?;
        Some(Hash::from_token(id.as_bytes()))
    }
}
