//! The tokio runtime.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate::Error;
use tollgate::shared::{Runtime, Task};

/// The tokio runtime on which a store lives. Its callers may be on another runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::Error> {
/// use tollgate::shared::Guard;
/// use tollgate_remote::Tokio;
///
/// let guard = Guard::builder().build_on(Tokio::current("the store")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Tokio(Handle);

impl Tokio {
    /// The runtime of the caller; `store` is the name for the error when there is none.
    ///
    /// # Errors
    /// When the caller is not inside a tokio runtime.
    ///
    /// See the example of [`Tokio`].
    pub fn current(store: &str) -> Result<Tokio, Error> {
        let needs = |error| Error::request(format!("{store} needs a tokio runtime: {error}"));
        Handle::try_current().map(Tokio).map_err(needs)
    }

    /// A timer of this runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::Error> {
    /// let runtime = tollgate_remote::Tokio::current("the store")?;
    /// runtime.timer(std::time::Duration::from_millis(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timer(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        let _runtime = self.0.enter();
        tokio::time::sleep(span)
    }
}

impl Deref for Tokio {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.0
    }
}

impl Runtime for Tokio {
    fn sleep(&self, span: Duration) -> Task {
        Box::pin(self.timer(span))
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }
}
