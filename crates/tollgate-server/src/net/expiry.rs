//! When a certificate expires, and the warning about it.

use std::fmt;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

const DAY: u64 = 24 * 60 * 60;

/// Warnings start this long before a certificate expires, in seconds.
const SOON: u64 = 30 * DAY;

/// The last second in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry(Time);

impl Expiry {
    /// Reads the first certificate of a PEM file. The others are intermediate certificates.
    pub(crate) fn read(path: &Path) -> Result<Expiry, String> {
        let pem = super::tls::read(path)?;
        let certificates = super::tls::certificates(path, &pem)?;
        Expiry::of(&certificates[0]).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Expiry, String> {
        let certificate = Certificate::from_der(certificate)
            .map_err(|error| format!("cannot read when the certificate expires: {error}"))?;
        Ok(Expiry(certificate.tbs_certificate.validity.not_after))
    }

    /// The time in seconds since the Unix epoch.
    pub(crate) fn unix_seconds(self) -> u64 {
        self.0.to_unix_duration().as_secs()
    }

    /// Whether it has expired at `now`, in seconds since the Unix epoch.
    pub(crate) fn has_passed(self, now: u64) -> bool {
        self.unix_seconds() < now
    }

    /// A warning if the certificate has expired at `now` or will expire soon.
    pub(crate) fn warning(self, now: u64) -> Option<String> {
        let expiry = self.unix_seconds();
        if self.has_passed(now) {
            return Some(format!("the certificate expired at {self}: clients reject it"));
        }
        let left = expiry - now;
        let days = match left / DAY {
            0 => "less than a day".to_owned(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        };
        (left <= SOON).then(|| format!("the certificate expires in {days}, at {self}"))
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_testservers::Certificates;

    use super::*;

    /// 2026-11-18T00:00:00Z.
    const EXPIRY: u64 = 1_794_960_000;

    fn expiry(seconds: u64) -> Expiry {
        Expiry::read(&Certificates::expiring_at(seconds).file("server.crt")).unwrap()
    }

    #[test]
    fn the_expiry_is_read_in_both_encodings_of_time() {
        // From 2050 on, certificates have years of four digits.
        for seconds in [EXPIRY, 2_524_607_999, 2_524_608_000, 253_402_300_799] {
            assert_eq!(expiry(seconds).unix_seconds(), seconds);
        }
        assert_eq!(expiry(EXPIRY).to_string(), "2026-11-18T00:00:00Z");
    }

    #[test]
    fn warnings_begin_thirty_days_before_the_expiry() {
        let expiry = expiry(EXPIRY);
        let at = "2026-11-18T00:00:00Z";
        for (now, expected) in [
            (EXPIRY - 31 * DAY, None),
            (EXPIRY - 30 * DAY - 1, None),
            (EXPIRY - 30 * DAY, Some(format!("the certificate expires in 30 days, at {at}"))),
            (EXPIRY - 2 * DAY + 1, Some(format!("the certificate expires in 1 day, at {at}"))),
            (EXPIRY, Some(format!("the certificate expires in less than a day, at {at}"))),
            (EXPIRY + 1, Some(format!("the certificate expired at {at}: clients reject it"))),
        ] {
            assert_eq!(expiry.warning(now), expected, "{now}");
            assert_eq!(expiry.has_passed(now), now > EXPIRY);
        }
    }

    #[test]
    fn a_file_without_a_readable_certificate_is_named() {
        let certificates = Certificates::new();
        let garbage = certificates.file("garbage.crt");
        let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        std::fs::write(&garbage, pem).unwrap();
        for (name, expected) in [
            ("nobody.crt", "nobody.crt: No such file"),
            ("server.key", "server.key: no certificate in it"),
            ("garbage.crt", "garbage.crt: cannot read when the certificate expires: "),
        ] {
            let error = Expiry::read(&certificates.file(name)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
