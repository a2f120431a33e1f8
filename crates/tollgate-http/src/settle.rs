//! Changes the cost of a request by its response.

use std::fmt;
use std::sync::Arc;

use crate::head::Lines;

/// The final cost of a request.
///
/// ```
/// use tollgate_http::Settle;
/// assert_eq!(Settle::Cost(3), Settle::Cost(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// The cost stays as charged.
    AsCharged,
    /// The request costs nothing: everything is given back.
    Nothing,
    /// Exactly this cost: the rest is given back, or more is charged even if that exceeds the
    /// limit.
    Cost(u64),
}

/// The head of a response, and the number of bytes of its body once that is known.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The status.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    headers: &'a dyn Lines,
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({}, {} bytes)", self.status, self.bytes)
    }
}

impl<'a> Response<'a> {
    /// A response without a body so far.
    ///
    /// ```
    /// let headers = http::HeaderMap::new();
    /// assert_eq!(tollgate_http::Response::new(200, &headers).status, 200);
    /// ```
    #[must_use]
    pub fn new(status: u16, headers: &'a dyn Lines) -> Response<'a> {
        Response { status, bytes: 0, headers }
    }

    /// The first line of a header; `name` is lower case.
    #[must_use]
    pub fn line(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.line(name)
    }
}

type Function = dyn Fn(&Response<'_>) -> Settle + Send + Sync;

/// How a request is settled.
///
/// ```
/// use tollgate_http::{Response, Settle, SettleBy};
///
/// // A login that succeeds costs nothing. All others count, whatever went wrong.
/// let failures = SettleBy::head(|response| {
///     if response.status == 200 { Settle::Nothing } else { Settle::AsCharged }
/// });
/// let headers = http::HeaderMap::new();
/// assert_eq!(failures.settle(&Response::new(200, &headers)), Settle::Nothing);
/// ```
#[derive(Clone)]
pub struct SettleBy {
    function: Arc<Function>,
    needs_body: bool,
    /// The least cost of [`Settle::Cost`].
    minimum: u64,
}

impl fmt::Debug for SettleBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.needs_body { "by the body" } else { "by the head" })
    }
}

impl SettleBy {
    /// Settles by a function of status and headers, before the response is sent.
    ///
    /// See the example of [`SettleBy`].
    #[must_use]
    pub fn head(function: impl Fn(&Response<'_>) -> Settle + Send + Sync + 'static) -> SettleBy {
        SettleBy { function: Arc::new(function), needs_body: false, minimum: 0 }
    }

    /// Settles by a function that also gets the number of bytes sent, when the body has ended or
    /// was dropped.
    ///
    /// A client that sends `HEAD`, or goes away before the first byte, gets no bytes and has made
    /// the handler work. So a [cost](Settle::Cost) is at least one unit;
    /// [`minimum`](SettleBy::minimum) sets what the work of a request is worth.
    ///
    /// ```
    /// use tollgate_http::{Response, Settle, SettleBy};
    /// let by_kibibyte = SettleBy::body(|response| Settle::Cost(response.bytes.div_ceil(1024)));
    /// let headers = http::HeaderMap::new();
    /// assert_eq!(by_kibibyte.settle(&Response::new(200, &headers)), Settle::Cost(1));
    /// ```
    #[must_use]
    pub fn body(function: impl Fn(&Response<'_>) -> Settle + Send + Sync + 'static) -> SettleBy {
        SettleBy { function: Arc::new(function), needs_body: true, minimum: 1 }
    }

    /// The least [cost](Settle::Cost): smaller ones are raised to it. Default: one unit for
    /// [`body`](SettleBy::body), else none. [`Settle::Nothing`] still gives everything back.
    ///
    /// ```
    /// use tollgate_http::{Response, Settle, SettleBy};
    /// // Every request is worth four kibibytes, however little is sent.
    /// let by_byte = SettleBy::body(|response| Settle::Cost(response.bytes)).minimum(4096);
    /// let headers = http::HeaderMap::new();
    /// assert_eq!(by_byte.settle(&Response::new(200, &headers)), Settle::Cost(4096));
    /// ```
    #[must_use]
    pub fn minimum(self, units: u64) -> SettleBy {
        SettleBy { minimum: units, ..self }
    }

    /// Settles by a header that the handler sets, a whole number of units. Without a valid number
    /// the cost stays as charged.
    ///
    /// ```
    /// let by_header = tollgate_http::SettleBy::header("x-cost");
    /// ```
    #[must_use]
    pub fn header(name: &str) -> SettleBy {
        let name = name.to_ascii_lowercase();
        SettleBy::head(move |response| {
            let value = response.line(&name).and_then(|value| std::str::from_utf8(value).ok());
            value
                .and_then(|value| value.trim().parse().ok())
                .map_or(Settle::AsCharged, Settle::Cost)
        })
    }

    /// Whether settling has to wait for the end of the body.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        self.needs_body
    }

    /// The final cost for this response.
    ///
    /// See the example of [`SettleBy`].
    #[must_use]
    pub fn settle(&self, response: &Response<'_>) -> Settle {
        match (self.function)(response) {
            Settle::Cost(cost) => Settle::Cost(cost.max(self.minimum)),
            settle => settle,
        }
    }
}
