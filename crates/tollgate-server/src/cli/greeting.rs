//! The message that the server prints when it has started.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use tollgate::shared::without_secrets;

use super::ports::PortAddress;
use crate::rules::RuleSet;

/// The addresses of all ports, and commands to try first.
#[derive(Debug)]
pub(super) struct Greeting<'a> {
    pub(super) ports: &'a [PortAddress],
    pub(super) store: &'a str,
    /// Whether the store answers.
    pub(super) answers: bool,
    pub(super) rules: &'a RuleSet,
    pub(super) config: Option<&'a PathBuf>,
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.answers {
            true => "is ready",
            false => "listens, but its store does not answer",
        };
        writeln!(f, "tollgate {} {state}", env!("CARGO_PKG_VERSION"))?;
        for PortAddress { name, address, tls } in self.ports {
            let what = match *name {
                "http" => "JSON, and checks for proxies",
                "grpc" => "Envoy's rate limit service",
                "resp" => "Redis' protocol",
                _ => "dashboard, metrics and health",
            };
            let url = match (*name, tls) {
                ("http" | "admin", false) => "http://",
                ("http" | "admin", true) => "https://",
                _ => "",
            };
            writeln!(f, "  {name:<6} {:<28} {what}", format!("{url}{address}"))?;
        }
        writeln!(f, "  store  {:<28} {}", without_secrets(self.store), kept(self.store))?;
        writeln!(f, "  rules  {}", self.rules())?;
        if let Some(hint) = self.hint() {
            write!(f, "\nTry it, five times a minute may pass:\n  {hint}\n")?;
        }
        Ok(())
    }
}

impl Greeting<'_> {
    fn rules(&self) -> String {
        let Some(config) = self.config else {
            return "none: limits come with the requests, or from a file (--config)".to_owned();
        };
        let mut all = counted(self.rules.limits.len(), "limit");
        if !self.rules.domains.is_empty() {
            let _ = write!(all, ", {}", counted(self.rules.domains.len(), "domain"));
        }
        format!("{all:<28} {}", config.display())
    }

    fn hint(&self) -> Option<String> {
        let port = |name| self.ports.iter().find(|place| place.name == name && !place.tls);
        let curl = |http: &PortAddress| {
            format!("curl -X POST 'http://{}/v1/hit?limit=5/minute&key=me'", http.address)
        };
        let cli = |resp: &PortAddress| {
            let (host, port) = (resp.address.ip(), resp.address.port());
            format!("redis-cli -h {host} -p {port} CL.THROTTLE me 4 5 60")
        };
        port("http").map(curl).or_else(|| port("resp").map(cli))
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Says where counts are kept, and whether they outlive this process.
fn kept(url: &str) -> &'static str {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        "memory" | "atomic" => "counts are in this process and end with it",
        "durable" => "counts are in this file, for this process alone, and outlive it",
        _ if scheme.starts_with("replicated+") => {
            "counts are in this process and are sent to the others over this bus"
        }
        _ if scheme.starts_with("leased+") => {
            "counts are shared by all who use it; each takes allotments in advance"
        }
        _ => "counts are shared by all who use it",
    }
}

#[cfg(test)]
mod tests {
    use super::kept;

    #[test]
    fn the_greeting_says_where_counts_are() {
        for (url, says) in [
            ("memory:", "end with it"),
            ("durable:/var/lib/tollgate/counts?level=reserve", "in this file"),
            ("redis://host/", "shared by all"),
            ("redis+cluster://host/", "shared by all"),
            ("leased+redis://host/", "allotments"),
            ("replicated+nats://host", "over this bus"),
        ] {
            assert!(kept(url).contains(says), "{url}: {}", kept(url));
        }
    }
}
