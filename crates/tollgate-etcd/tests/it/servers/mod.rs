//! Servers of tests, stopped when they are dropped.

mod cluster;
mod member;

pub(crate) use cluster::Cluster;
pub(crate) use member::Member;
pub(crate) use tollgate_testservers::{Certificates, Together, free_port};
