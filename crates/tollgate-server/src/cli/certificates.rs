//! Reloads certificates when their files change, and warns before they expire.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::net::{Expiry, Tls};
use crate::observe::Protocol;
use crate::seconds::unix_now;
use crate::service::Service;

/// How often the files are read. They are small, and some file systems do not report changes.
const LOOK: Duration = Duration::from_secs(5);

/// How often the log warns of a certificate that expires soon.
const WARN: Duration = Duration::from_secs(24 * 60 * 60);

/// Loads certificates that have changed: within [`LOOK`], and immediately on `SIGHUP`. Warns of
/// certificates that expire soon: when called, once a day, on `SIGHUP`, and when they are new.
/// Never returns.
pub(super) async fn look_after(certificates: Vec<(Protocol, Arc<Tls>)>, service: Arc<Service>) {
    let mut hangups = signal(SignalKind::hangup()).ok();
    let mut daily = tokio::time::interval(WARN);
    loop {
        // The first tick of the interval comes immediately.
        let warn = tokio::select! {
            _ = daily.tick() => true,
            () = hangup(&mut hangups) => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        for (protocol, tls) in &certificates {
            if reload(*protocol, tls).await || warn {
                note_expiry(&service, *protocol, tls);
                warn_of_expiry(*protocol, tls);
            }
        }
    }
}

/// Loads a changed certificate; true if there was one.
async fn reload(protocol: Protocol, tls: &Arc<Tls>) -> bool {
    let (port, tls) = (protocol.name(), Arc::clone(tls));
    match tokio::task::spawn_blocking(move || tls.reload()).await {
        Ok(Ok(true)) => {
            tracing::info!(port, "loaded a new certificate");
            return true;
        }
        Ok(Ok(false)) => {}
        Ok(Err(error)) => {
            tracing::error!(port, %error, "the new certificate is not valid: the old one stays in use");
        }
        Err(error) => tracing::error!(port, %error, "certificates could not be checked"),
    }
    false
}

/// Puts the expiry into the metrics.
pub(super) fn note_expiry(service: &Service, protocol: Protocol, tls: &Tls) {
    let expiry = tls.expiry().map(Expiry::unix_seconds).ok();
    service.observer().port(protocol).set_certificate_expiry(expiry);
}

fn warn_of_expiry(protocol: Protocol, tls: &Tls) {
    let (port, certificate, now) = (protocol.name(), tls.certificate().display(), unix_now());
    match tls.expiry().map(|expiry| (expiry.warning(now), expiry.has_passed(now))) {
        Ok((Some(warning), true)) => tracing::error!(port, %certificate, "{warning}"),
        Ok((Some(warning), false)) => tracing::warn!(port, %certificate, "{warning}"),
        Ok((None, _)) => {}
        Err(error) => tracing::warn!(port, %certificate, "{error}"),
    }
}

async fn hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use tollgate_testservers::Certificates;

    use super::*;
    use crate::cli::serve::opening;
    use crate::net::TlsFiles;
    use crate::rules::RuleSet;
    use crate::service::Defaults;
    use crate::settings::StoreSettings;

    /// The lines of the log.
    #[derive(Clone, Debug, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_expires_soon_is_logged_once_a_day() {
        let certificates = Certificates::expiring_at(unix_now() + 10 * WARN.as_secs() + 3_600);
        let files = TlsFiles {
            certificate: certificates.file("server.crt"),
            key: certificates.file("server.key"),
            client_ca: None,
        };
        let tls = Arc::new(Tls::load(files, &[]).unwrap());
        let settings = StoreSettings::default();
        let store = opening(&settings).open().await.unwrap();
        let rules = RuleSet::default();
        let service = Arc::new(Service::new(store, Defaults::from(&settings), &rules).unwrap());

        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let days = WARN * 2 + WARN / 2;
        let running = look_after(vec![(Protocol::Http, tls)], service);
        assert!(tokio::time::timeout(days, running).await.is_err(), "it never returns");
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let is_warning = |line: &&str| {
            line.contains(" WARN ") && line.contains("the certificate expires in 10 days, at ")
        };
        assert_eq!(log.lines().filter(is_warning).count(), 3, "{log}");
    }
}
