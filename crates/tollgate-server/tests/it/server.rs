//! The real binary on free ports.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use tollgate_testkit::servers::{Process, eventually, free_port};

/// A running `tollgate serve`, gone when dropped.
#[allow(dead_code)] // whichever ports the tests of a build ask
pub(crate) struct Server {
    process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// With these arguments behind `serve`, and all ports open.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (http, grpc, resp, admin) = (local(), local(), local(), local());
        let mut process = Process::new(env!("CARGO_BIN_EXE_tollgate"), "tollgate");
        process.start(|command| {
            command.arg("serve");
            for (name, address) in
                [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)]
            {
                command.arg(format!("--{name}")).arg(address.to_string());
            }
            command.args(arguments);
        });
        for address in [http, grpc, resp, admin] {
            eventually("the server listens", || TcpStream::connect(address).is_ok());
        }
        Server { process, http, grpc, resp, admin }
    }

    /// With this text as its configuration file; its name tells the format.
    #[allow(dead_code)] // not all parts have rules
    pub(crate) fn with_config(name: &str, text: &str) -> Server {
        let dir = tollgate_testkit::servers::Directory::new();
        let path: &Path = &dir.path().join(name);
        std::fs::write(path, text).unwrap();
        Server::start(&["--config", path.to_str().unwrap()])
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Waits until it has ended by itself; true if all was well.
    pub(crate) fn ended_well(&mut self) -> bool {
        let mut status = None;
        eventually("the server ends", || {
            status = self.process.ended();
            status.is_some()
        });
        status.is_some_and(|status| status.success())
    }
}
