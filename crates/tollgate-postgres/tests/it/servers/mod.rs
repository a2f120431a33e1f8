//! Servers of the tests.

mod server;

pub(crate) use server::{Server, Shape};
pub(crate) use tollgate_testkit::servers::{PATIENCE, Process, eventually, free_port};
