//! What can go wrong with a server, and what callers see of it.

mod cleaning;
mod database;
mod locks;
mod outage;
mod overload;
