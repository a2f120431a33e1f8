//! Servers of the tests.

mod pooler;
mod proxy;
mod server;

pub(crate) use pooler::Pooler;
pub(crate) use proxy::Proxy;
pub(crate) use server::{Server, Shape};
pub(crate) use tollgate_testkit::servers::{
    Certificates, PATIENCE, Process, Together, eventually, free_port,
};
