//! The body of a response: the handler's, or the text of a refusal.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of [`RateLimit`](crate::RateLimit): the handler's or ours.
    ///
    /// ```
    /// use http_body::Body as _;
    /// // For layers that respond themselves, those of CORS for instance.
    /// let empty = tollgate_tower::Body::<axum::body::Body>::default();
    /// assert!(empty.is_end_stream());
    /// ```
    pub struct Body<B> {
        #[pin]
        kind: Kind<B>,
        tally: Option<Box<Tally>>,
    }
}

pin_project! {
    #[project = Projected]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Text { bytes: Option<Bytes> },
    }
}

/// Boxed, so that the type of a body does not depend on the store. Only gates that settle by the
/// body have one.
pub(crate) type SettleFn = Box<dyn FnOnce(u64) + Send + Sync>;

/// Counts bytes and settles when the body has ended, or was dropped because the client is gone.
struct Tally {
    bytes: u64,
    settle: Option<SettleFn>,
}

impl Tally {
    fn end(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(self.bytes);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        // The request of a handler that panics stays charged, and a second panic would end the
        // process.
        if !std::thread::panicking() {
            self.end();
        }
    }
}

impl<B> Body<B> {
    pub(crate) fn inner(body: B) -> Self {
        Body { kind: Kind::Inner { body }, tally: None }
    }

    pub(crate) fn counted(body: B, settle: SettleFn) -> Self {
        let tally = Some(Box::new(Tally { bytes: 0, settle: Some(settle) }));
        Body { kind: Kind::Inner { body }, tally }
    }

    pub(crate) fn text(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Body { kind: Kind::Text { bytes }, tally: None }
    }
}

/// A body that is not counted becomes the handler's own, without another box around it.
#[cfg(feature = "axum")]
impl From<Body<axum::body::Body>> for axum::body::Body {
    fn from(body: Body<axum::body::Body>) -> Self {
        match body {
            Body { kind: Kind::Inner { body }, tally: None } => body,
            Body { kind: Kind::Text { bytes }, .. } => bytes.unwrap_or_default().into(),
            counted => axum::body::Body::new(counted),
        }
    }
}

impl<B> Default for Body<B> {
    fn default() -> Self {
        Body::text(Bytes::new())
    }
}

impl<B> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Inner { .. } => "Body(inner)",
            Kind::Text { .. } => "Body(refusal)",
        })
    }
}

impl<B> http_body::Body for Body<B>
where
    B: http_body::Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = match this.kind.project() {
            Projected::Inner { body } => body.poll_frame(cx),
            Projected::Text { bytes } => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into()))))
            }
        };
        if let (Some(tally), Poll::Ready(frame)) = (this.tally, &polled) {
            match frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Buf::remaining);
                    tally.bytes = tally.bytes.saturating_add(bytes as u64);
                }
                Some(Err(_)) | None => tally.end(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Text { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Text { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}
