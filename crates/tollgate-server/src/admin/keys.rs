//! The busiest and the most denied keys.

use http::{Response, StatusCode};
use serde_json::json;

use crate::http::{Problem, Reply, of_json, query};
use crate::service::Service;

/// The number of keys shown by default, and the largest number that can be asked for.
const SHOWN: usize = 20;
const MOST: usize = 1_000;

pub(super) fn answer(service: &Service, text: &str) -> Result<Response<Reply>, Problem> {
    let most = most(text)?;
    let observer = service.observer();
    let body = json!({"busiest": observer.busiest(most), "denied": observer.most_denied(most)});
    Ok(of_json(StatusCode::OK, body.to_string()))
}

/// The number of keys that a query asks for.
pub(super) fn most(text: &str) -> Result<usize, Problem> {
    let mut most = SHOWN;
    for pair in query::pairs(text) {
        let (name, value) = pair?;
        if name != "top" {
            return Err(Problem::wrong(format!("parameter {name:?}: unknown; expected top")));
        }
        let number = value.parse().ok().filter(|top| (1..=MOST).contains(top));
        most = number
            .ok_or_else(|| Problem::wrong(format!("top {value:?}: must be from 1 to {MOST}")))?;
    }
    Ok(most)
}
