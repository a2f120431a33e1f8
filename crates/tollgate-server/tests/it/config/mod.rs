//! The configuration of the real binary: files, and what becomes of it when they change.

mod check;
mod reload;

use tollgate_testservers::eventually;

use crate::resp::{Client, Value};
use crate::server::Server;

impl Server {
    fn client(&self) -> Client {
        Client::connect(self.resp)
    }

    /// Until the limit of a rule is this.
    fn eventually_has(&self, rule: &str, limit: i64) {
        let mut client = self.client();
        eventually("the rule is in force", || {
            let answer = client.ask(&format!("TG.PEEK {rule} nobody"));
            !matches!(answer, Value::Error(_)) && answer.field("limit").integer() == limit
        });
    }
}
