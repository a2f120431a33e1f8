//! Servers of tests, stopped when they are dropped.

mod cluster;
mod sentinels;
mod server;
mod tls;

pub(crate) use cluster::Cluster;
pub(crate) use sentinels::{NAME, Sentinels};
pub(crate) use server::Server;
pub(crate) use tls::{start_tls, tls_cli_args};
pub(crate) use tollgate_testservers::{Certificates, PATIENCE, Together, eventually, free_port};
