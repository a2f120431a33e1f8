//! The busiest and the most denied keys.

use http::{Response, StatusCode};

use crate::http::{Problem, Reply, of_json, query, quoted};
use crate::observe::Seen;
use crate::service::Service;

/// How many keys are shown unless told otherwise, and at most.
const SHOWN: usize = 20;
const MOST: usize = 1_000;

pub(super) fn answer(service: &Service, text: &str) -> Result<Response<Reply>, Problem> {
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
    let mut body = String::from("{\"busiest\":");
    list(&service.observer().busiest(most), &mut body);
    body.push_str(",\"denied\":");
    list(&service.observer().most_denied(most), &mut body);
    body.push('}');
    Ok(of_json(StatusCode::OK, body))
}

fn list(seen: &[Seen], out: &mut String) {
    out.push('[');
    for (index, Seen { namespace, rule, key, count, over }) in seen.iter().enumerate() {
        out.push_str(if index == 0 { "{\"key\":" } else { ",{\"key\":" });
        quoted(key, out);
        out.push_str(",\"rule\":");
        quoted(rule, out);
        out.push_str(",\"namespace\":");
        quoted(namespace, out);
        out.push_str(&format!(",\"count\":{count},\"over\":{over}}}"));
    }
    out.push(']');
}
