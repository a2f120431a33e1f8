//! HTTP for tollgate: who the client is, and what the response tells it.

mod cidr;
mod client_ip;
mod forwarded;
mod head;

pub use cidr::{Cidr, CidrError};
pub use client_ip::{ClientIp, WrittenIn};
pub use head::{Head, Lines};
