//! Bodies whose bytes are counted.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response. Its bytes are counted where its request is settled by them.
    #[derive(Debug)]
    pub struct Counted<B> {
        #[pin]
        body: B,
        meter: Option<Meter>,
    }
}

/// Counts bytes, and calls a function when the body has ended or was dropped.
struct Meter {
    bytes: u64,
    at_end: Option<Box<dyn FnOnce(u64)>>,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Meter {
    fn end(&mut self) {
        if let Some(at_end) = self.at_end.take() {
            at_end(self.bytes);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // A second panic would end the process; the request stays charged.
        if !std::thread::panicking() {
            self.end();
        }
    }
}

impl<B> Counted<B> {
    pub(crate) fn uncounted(body: B) -> Counted<B> {
        Counted { body, meter: None }
    }

    pub(crate) fn new(body: B, at_end: impl FnOnce(u64) + 'static) -> Counted<B> {
        Counted { body, meter: Some(Meter { bytes: 0, at_end: Some(Box::new(at_end)) }) }
    }
}

impl<B: MessageBody> MessageBody for Counted<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.project();
        let polled = this.body.poll_next(cx);
        if let Some(meter) = this.meter {
            match &polled {
                Poll::Ready(Some(Ok(bytes))) => {
                    meter.bytes = meter.bytes.saturating_add(bytes.len() as u64);
                }
                Poll::Ready(Some(Err(_)) | None) => meter.end(),
                Poll::Pending => {}
            }
        }
        polled
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        let Counted { body, meter } = self;
        match body.try_into_bytes() {
            Ok(bytes) => {
                if let Some(mut meter) = meter {
                    meter.bytes = meter.bytes.saturating_add(bytes.len() as u64);
                }
                Ok(bytes)
            }
            Err(body) => Err(Counted { body, meter }),
        }
    }
}
