//! `/api/v1/keys`: the busiest and the most denied keys.

use serde_json::{Value, json};

use super::super::keys;
use crate::http::Problem;
use crate::service::Service;

/// The counts are estimates: a sketch of fixed size may count too many, and says how many.
pub(super) fn all(service: &Service, query: &str) -> Result<Value, Problem> {
    let most = keys::most(query)?;
    let observer = service.observer();
    Ok(json!({
        "estimates": true,
        "busiest": observer.busiest(most),
        "denied": observer.most_denied(most),
    }))
}
