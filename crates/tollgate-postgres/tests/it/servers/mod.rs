//! Servers of the tests.

mod pooler;
mod server;

pub(crate) use pooler::Pooler;
pub(crate) use server::{Server, Shape};
pub(crate) use tollgate_testservers::{Certificates, Process, Together, eventually, free_port};
