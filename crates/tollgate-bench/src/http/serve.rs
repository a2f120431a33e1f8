//! Servers, each in a process of its own.

use super::COMMAND;
use super::contenders::{App, Contender};
use crate::Outcome;
use axum::ServiceExt;
use axum::extract::Request;
use axum::extract::connect_info::IntoMakeServiceWithConnectInfo;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tower_service::Service;

pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
}

impl Server {
    pub(crate) fn start(contender: &Contender) -> Outcome<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([COMMAND, "serve", contender.id])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        let said = child.stdout.take().ok_or("a server without output")?;
        BufReader::new(said).read_line(&mut address)?;
        let address: SocketAddr = address.trim().parse().map_err(|_| {
            format!("server {}: said `{}` and no address", contender.id, address.trim())
        })?;
        Ok(Server { url: format!("http://{address}/"), child })
    }

    /// Seconds on a core so far. It has one thread only.
    pub(crate) fn cpu(&self) -> Outcome<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
        Ok(nanos.ok_or_else(|| format!("schedstat `{text}`: must begin with a number"))? / 1e9)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: serves until it is killed. One thread: wrk has the other core.
pub(crate) fn run(contender: &Contender) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = (contender.app)()?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        match app {
            App::Inside(app) => axum::serve(listener, with_peers(app)).await?,
            App::Constant(app) => axum::serve(listener, with_peers(app)).await?,
            App::Tollgate(app) => axum::serve(listener, app).await?,
            App::Governor(app) => axum::serve(listener, with_peers(app)).await?,
            App::GovernorTells(app) => axum::serve(listener, with_peers(app)).await?,
        }
        Ok(())
    })
}

fn with_peers<S: Service<Request>>(app: S) -> IntoMakeServiceWithConnectInfo<S, SocketAddr> {
    app.into_make_service_with_connect_info()
}
