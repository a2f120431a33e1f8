//! The settings that all stores behind a network have.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tollgate::Error;
use tollgate::shared::{Guard, GuardBuilder, without_secrets};

/// The settings that the builder of every store behind a network has. [`settings_methods`] makes
/// the methods that set them.
///
/// [`settings_methods`]: crate::settings_methods
///
/// ```
/// use tollgate_remote::Settings;
///
/// let settings = Settings::new("redis://me:secret@host");
/// assert_eq!(settings.connect_timeout.as_secs(), 2);
/// assert!(!format!("{settings:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[expect(missing_docs, reason = "the methods of the builders describe them")]
pub struct Settings {
    pub url: String,
    pub connect_timeout: Duration,
    pub certificates: Certificates,
    pub guard: GuardBuilder,
}

/// Certificates in PEM form.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Authorities to trust instead of those of the system.
    pub roots: Option<Vec<u8>>,
    /// The client's certificate and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Leaves out the password of the URL.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&without_secrets(&self.url)).finish()
    }
}

/// Leaves out the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Settings {
    /// The defaults for a URL.
    ///
    /// See the example of [`Settings`].
    pub fn new(url: impl Into<String>) -> Settings {
        Settings {
            url: url.into(),
            connect_timeout: Duration::from_secs(2),
            certificates: Certificates::default(),
            guard: Guard::builder(),
        }
    }

    /// The guard, with the URL as its name.
    ///
    /// ```
    /// let guard = tollgate_remote::Settings::new("redis://host").named_guard();
    /// ```
    pub fn named_guard(&self) -> GuardBuilder {
        self.guard.clone().name(without_secrets(&self.url))
    }
}

/// Waits until a store can be reached, at most for the time to connect.
///
/// # Errors
/// When it cannot be reached within that time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::{future, time::Duration};
///
/// let silent = tollgate_remote::reach(Duration::from_millis(1), future::pending()).await;
/// assert_eq!(silent.unwrap_err().detail(), "no answer within 1ms");
/// # }
/// ```
pub async fn reach(
    connect_timeout: Duration,
    reachable: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let check = tokio::time::timeout(connect_timeout, reachable).await;
    check.unwrap_or_else(|_| {
        Err(Error::unavailable(format!("no answer within {connect_timeout:?}")))
    })
}

/// Makes the methods that set [`Settings`](crate::Settings), in the `impl` of a builder with such
/// a field `settings`. With the word `certificates` also those that set certificates.
///
/// ```
/// struct Builder {
///     settings: tollgate_remote::Settings,
/// }
///
/// impl Builder {
///     tollgate_remote::settings_methods!(certificates);
/// }
///
/// let builder = Builder { settings: tollgate_remote::Settings::new("etcds://a") };
/// let builder = builder.connect_timeout(std::time::Duration::from_secs(1)).root_certificates(*b"...");
/// assert_eq!(builder.settings.connect_timeout.as_secs(), 1);
/// ```
#[macro_export]
macro_rules! settings_methods {
    () => {
        /// How long one attempt to connect may take. Default 2 seconds. It continues in the
        /// background: no call waits longer than its deadline.
        pub fn connect_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.settings.connect_timeout = timeout;
            self
        }

        /// Deadline, breaker and remembered denials.
        pub fn guard(mut self, guard: ::tollgate::shared::GuardBuilder) -> Self {
            self.settings.guard = guard;
            self
        }
    };
    (certificates) => {
        $crate::settings_methods!();

        /// Certificates of authorities to trust, in PEM form, instead of those of the system.
        pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
            self.settings.certificates.roots = Some(pem.into());
            self
        }

        /// A client certificate and its key, in PEM form.
        pub fn client_certificate(
            mut self,
            certificate: impl Into<Vec<u8>>,
            key: impl Into<Vec<u8>>,
        ) -> Self {
            self.settings.certificates.client = Some((certificate.into(), key.into()));
            self
        }
    };
}
