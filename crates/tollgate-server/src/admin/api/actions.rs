//! `/api/v1/actions/...`: operators change the counts of a key. Each change is in the log, with the
//! name of the token and without the key.

use http::StatusCode;
use serde_json::Value;

use super::super::access::Caller;
use super::key::{self, Request};
use crate::auth::TokenScope;
use crate::http::Problem;
use crate::service::{Operation, Service};

/// A change of the counts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Reset,
    Refund,
    Set,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Reset => "reset",
            Action::Refund => "refund",
            Action::Set => "set",
        }
    }

    pub(super) fn check_scope(self, caller: &Caller) -> Result<(), Problem> {
        if caller.scope >= TokenScope::Operate {
            return Ok(());
        }
        let detail =
            format!("{}: needs a token of scope operate; this caller may only read", self.name());
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }

    /// Changes the key and returns its new state.
    pub(super) async fn run(
        self,
        service: &Service,
        caller: &Caller,
        body: &[u8],
    ) -> Result<Value, Problem> {
        let request = Request::read(body)?;
        let found = request.find(service)?;
        let units = || {
            let missing = || Problem::wrong(format!("units: missing; {} needs them", self.name()));
            request.units.ok_or_else(missing)
        };
        match self {
            Action::Reset => {
                found.rule.reset(&found).await?;
            }
            Action::Refund => {
                service.execute(&found.rule, &found, Operation::Refund(units()?)).await?;
            }
            Action::Set => {
                service.execute(&found.rule, &found, Operation::Set(units()?)).await?;
            }
        }
        tracing::info!(
            token = caller.name,
            action = self.name(),
            namespace = found.namespace,
            domain = found.domain,
            rule = found.rule.name(),
            units = request.units,
            "an operator changed the counts of a key"
        );
        key::state(service, &found).await
    }
}
