//! `/api/v1/stream`: one event a second with the newest counts, and the task that notes them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tollgate::{Clock as _, SystemClock};

use super::super::access::Caller;
use super::super::{Admin, Body};
use super::overview;
use crate::http::Problem;
use crate::net::Draining;

/// The most streams at the same time.
const MOST: usize = 100;

/// The sources of all streams. An event is written once, however many read it.
#[derive(Debug)]
pub(crate) struct Events {
    newest: watch::Sender<Bytes>,
    room: Arc<Semaphore>,
    draining: Draining,
}

impl Events {
    pub(crate) fn new(draining: Draining) -> Events {
        let room = Arc::new(Semaphore::new(MOST));
        Events { newest: watch::Sender::default(), room, draining }
    }
}

/// Notes the counts of every second, and writes the event if somebody reads it. Never returns.
pub(crate) async fn record(admin: Arc<Admin>) {
    let clock = SystemClock::new();
    loop {
        // Just after a new second has begun, so that each has exactly one note.
        let into = clock.now().as_micros() % 1_000_000;
        tokio::time::sleep(Duration::from_micros(1_001_000 - into)).await;
        admin.service.observer().tick(clock.now().as_micros() / 1_000_000);
        if admin.events.newest.receiver_count() > 0 {
            admin.events.newest.send_replace(event(&admin));
        }
    }
}

fn event(admin: &Admin) -> Bytes {
    format!("event: second\ndata: {}\n\n", overview::with_newest(admin)).into()
}

/// The state of one stream.
struct Reader {
    admin: Arc<Admin>,
    caller: Caller,
    newest: watch::Receiver<Bytes>,
    draining: Draining,
    _room: OwnedSemaphorePermit,
}

impl Reader {
    /// The next event; `None` when the stream ends: the server stops, or the caller is not admitted
    /// any more.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            changed = self.newest.changed() => changed.ok()?,
            () = self.draining.begun() => return None,
        }
        self.admin
            .access
            .still_admits(&self.caller)
            .then(|| self.newest.borrow_and_update().clone())
    }
}

/// Events without end, the first one at once.
pub(super) fn stream(admin: &Arc<Admin>, caller: Caller) -> Result<Response<Body>, Problem> {
    let room = Arc::clone(&admin.events.room).try_acquire_owned().map_err(|_| {
        let detail = format!("stream: {MOST} are open, and there are no more");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let reader = Reader {
        admin: Arc::clone(admin),
        caller,
        newest: admin.events.newest.subscribe(),
        draining: admin.events.draining.clone(),
        _room: room,
    };
    let first = event(admin);
    let events = stream::unfold((reader, Some(first)), |(mut reader, first)| async move {
        let event = match first {
            Some(first) => first,
            None => reader.next().await?,
        };
        Some((Ok(Frame::data(event)), (reader, None)))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // nginx would collect the events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}
