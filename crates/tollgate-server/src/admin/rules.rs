//! The rules in force.

use crate::http::quoted;
use crate::service::{Service, Verdict};

pub(super) fn text(service: &Service) -> String {
    let mut out = String::from("{\"rules\":[");
    for (index, (namespace, bound)) in service.rules().iter().enumerate() {
        out.push_str(if index == 0 { "{\"namespace\":" } else { ",{\"namespace\":" });
        quoted(namespace, &mut out);
        out.push_str(",\"name\":");
        quoted(bound.name(), &mut out);
        out.push_str(",\"limit\":");
        quoted(&bound.described(), &mut out);
        out.push_str(&format!(",\"shadow\":{}", bound.is_shadow()));
        for verdict in Verdict::ALL {
            out.push_str(&format!(",\"{}\":{}", verdict.name(), bound.stats().count(verdict)));
        }
        out.push_str(&format!(",\"errors\":{}}}", bound.stats().errors()));
    }
    out.push_str("],\"reloads\":");
    // Plain text and numbers: there is nothing in it that JSON could not hold.
    let status = serde_json::to_string(&service.reloads().status());
    out.push_str(&status.unwrap_or_else(|_| "null".to_owned()));
    out.push('}');
    out
}
