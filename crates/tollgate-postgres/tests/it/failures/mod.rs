//! Failures of the server, and the answers that callers get.

mod cleaning;
mod database;
mod locks;
mod outage;
mod overload;
