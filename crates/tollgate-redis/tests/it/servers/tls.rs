//! A Redis server that speaks TLS.

use tollgate_testservers::{Certificates, free_port};

use super::server::Server;

/// A server that accepts only TLS, and its address.
pub(crate) fn start_tls(certificates: &Certificates, client_certificate: bool) -> (Server, String) {
    let port = free_port();
    let args = server_args(certificates, port, client_certificate);
    let server = Server::start_tls(port, args, tls_cli_args(certificates));
    (server, format!("rediss://127.0.0.1:{port}/"))
}

fn server_args(certificates: &Certificates, port: u16, client_certificate: bool) -> Vec<String> {
    let ask = if client_certificate { "yes" } else { "no" };
    [
        ("--port", "0".to_owned()),
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", certificates.name("server.crt")),
        ("--tls-key-file", certificates.name("server.key")),
        ("--tls-ca-cert-file", certificates.name("ca.crt")),
        ("--tls-auth-clients", ask.to_owned()),
    ]
    .into_iter()
    .flat_map(|(option, value)| [option.to_owned(), value])
    .collect()
}

/// The arguments that `redis-cli` needs for it.
pub(crate) fn tls_cli_args(certificates: &Certificates) -> Vec<String> {
    let mut args = vec!["--tls".to_owned()];
    for (option, file) in
        [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")]
    {
        args.extend([option.to_owned(), certificates.name(file)]);
    }
    args
}
