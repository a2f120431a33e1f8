//! The configuration of the real binary, and changes of its files.

mod check;
mod reload;

use tollgate_testservers::eventually;

use crate::resp::{Client, Value};
use crate::server::Server;

impl Server {
    fn client(&self) -> Client {
        Client::connect(self.resp)
    }

    /// Waits until the limit of a rule has this value.
    fn eventually_has(&self, rule: &str, limit: i64) {
        let mut client = self.client();
        eventually("the rule is in force", || {
            let answer = client.ask(&format!("TG.PEEK {rule} nobody"));
            !matches!(answer, Value::Error(_)) && answer.field("limit").integer() == limit
        });
    }
}
