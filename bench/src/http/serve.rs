//! Servers, each in a separate process.

use super::COMMAND;
use super::contenders::{App, Contender};
use crate::Outcome;
use axum::ServiceExt;
use axum::extract::Request;
use axum::extract::connect_info::IntoMakeServiceWithConnectInfo;
use axum::serve::{Listener, ListenerExt};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tokio::runtime::Runtime;
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

    /// CPU seconds so far. It has only one thread.
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

/// The child's side: serves until it is killed.
pub(crate) fn run(contender: &Contender) -> Outcome<()> {
    runtime()?.block_on(async {
        let app = (contender.app)()?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        Ok(app.serve(listener).await?)
    })
}

/// One thread, because wrk has the other core.
pub(super) fn runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

impl App {
    /// Serves connections of any kind. All contenders except one pass on the peer's address. axum
    /// does that for listeners that it knows, and for any that is tapped.
    pub(super) async fn serve<L: Listener<Addr = SocketAddr>>(self, listener: L) -> io::Result<()> {
        let tapped = |listener: L| listener.tap_io(|_| {});
        match self {
            App::Unknowing(app) => axum::serve(listener, app).await,
            App::Inside(app) => axum::serve(tapped(listener), with_peers(app)).await,
            App::Constant(app) => axum::serve(tapped(listener), with_peers(app)).await,
            App::Tollgate(app) => axum::serve(listener, app).await,
            App::Governor(app) => axum::serve(tapped(listener), with_peers(app)).await,
            App::GovernorTells(app) => axum::serve(tapped(listener), with_peers(app)).await,
        }
    }
}

fn with_peers<S: Service<Request>>(app: S) -> IntoMakeServiceWithConnectInfo<S, SocketAddr> {
    app.into_make_service_with_connect_info()
}
