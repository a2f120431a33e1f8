//! PgBouncer in front of a server.

use super::server::{own, unprivileged};
use super::{Process, Server, eventually, free_port};

/// A pooler in transaction mode with fewer sessions than connections.
#[derive(Debug)]
pub(crate) struct Pooler {
    _process: Process,
    port: u16,
    _server: Server,
}

impl Pooler {
    pub(crate) fn start() -> Pooler {
        let server = Server::start();
        let port = free_port();
        let whole = unprivileged("pgbouncer".to_owned());
        drop(Process::new("pgbouncer", "pgbouncer"));
        let mut process = Process::new(&whole[0][..], "pgbouncer");
        let dir = process.dir().to_owned();
        std::fs::write(dir.join("users"), "\"postgres\" \"\"\n").unwrap();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\n\
             auth_type=trust\nauth_file={}\npool_mode=transaction\ndefault_pool_size=2\nmax_client_conn=200\n",
            server.port,
            dir.join("users").display()
        );
        std::fs::write(dir.join("settings"), settings).unwrap();
        own(&dir);
        process.start(|command| {
            command.args(&whole[1..]).arg(dir.join("settings"));
        });
        eventually("the pooler listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Pooler { _process: process, port, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}
