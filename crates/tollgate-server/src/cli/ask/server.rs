//! Asks a server.

use std::error::Error;

use http::StatusCode;
use serde_json::{Value, json};

use super::{Ask, Asked, Client, RefundBy, Report, To};

pub(super) async fn ask(asked: Asked, ask: &Ask) -> Result<Report, Box<dyn Error>> {
    let To { server, .. } = &ask.to;
    let mut client = Client::connect(ask.to.target()).await?;
    let key = match &ask.key[..] {
        [one] => json!(one),
        several => json!(several),
    };
    let mut question = json!({"limit": ask.limit, "key": key, "namespace": ask.namespace});
    match &ask.refund {
        RefundBy { receipt, .. } if receipt.is_empty() => question["cost"] = json!(ask.cost()),
        RefundBy { receipt, units } => {
            question["receipt"] = json!(receipt);
            question["units"] = json!(units);
        }
    }
    let response = client.post(asked.path(), question.to_string()).await?;
    let answer: Value = serde_json::from_slice(response.body()).map_err(|_| {
        format!("server {server:?}: {} and no JSON; is that the HTTP port?", response.status())
    })?;
    match response.status() {
        StatusCode::OK | StatusCode::TOO_MANY_REQUESTS => Ok(Report(answer)),
        status => {
            let detail = answer.get("detail").and_then(Value::as_str).unwrap_or("no reason given");
            let hint = match status {
                StatusCode::METHOD_NOT_ALLOWED => "; is that the HTTP port?",
                _ => "",
            };
            Err(format!("{detail} ({status}){hint}").into())
        }
    }
}
