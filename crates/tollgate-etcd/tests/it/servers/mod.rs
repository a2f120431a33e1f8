//! Servers of one's own, gone when they are dropped.

mod cluster;
mod member;
mod proxy;

pub(crate) use cluster::Cluster;
pub(crate) use member::Member;
pub(crate) use proxy::Proxy;
pub(crate) use tollgate_testkit::servers::{Certificates, PATIENCE, Together, free_port};
