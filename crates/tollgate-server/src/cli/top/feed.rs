//! Samples of the admin port: one whenever its event stream says that a second is over.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tollgate::{Clock as _, SystemClock, Timestamp};

use super::super::client::{Client, Target};

/// The longest event. Its size depends on the number of ports, not on rules and keys.
const LONGEST_EVENT: usize = 1 << 20;

/// The answers of the API at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    pub(super) overview: Value,
    pub(super) rules: Value,
    pub(super) keys: Value,
}

impl Sample {
    pub(super) fn json(&self) -> Value {
        json!({ "overview": self.overview, "rules": self.rules["rules"], "keys": self.keys })
    }
}

/// Why there is no sample.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    /// Whether the server may answer later without another command line.
    pub(super) may_pass: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

impl From<Box<dyn Error>> for Failure {
    fn from(error: Box<dyn Error>) -> Failure {
        Failure { message: error.to_string(), may_pass: true }
    }
}

/// Two connections to the admin port: one for its events, one for everything else.
#[derive(Debug)]
pub(super) struct Feed {
    server: Server,
    client: Client,
    events: Incoming,
    /// The beginning of an event whose end has not come yet.
    unread: Vec<u8>,
    keys: String,
    clock: SystemClock,
}

/// The server, for errors.
#[derive(Clone, Debug)]
struct Server {
    url: String,
    has_token: bool,
    timeout: Duration,
}

impl Feed {
    pub(super) async fn open(
        target: Target<'_>,
        keys: u16,
        timeout: Duration,
    ) -> Result<Feed, Failure> {
        let has_token = target.token.is_some();
        let server = Server { url: target.url.to_owned(), has_token, timeout };
        let (client, events) = server
            .within(async {
                let mut client = Client::connect(target).await?;
                let stream = client.begin("/api/v1/stream").await?;
                if stream.status() == StatusCode::OK && is_event_stream(&stream) {
                    return Ok((Client::connect(target).await?, stream.into_body()));
                }
                Err(server.refusal(&client.whole(stream).await?))
            })
            .await?;
        let keys = format!("/api/v1/keys?top={keys}");
        let clock = SystemClock::new();
        Ok(Feed { server, client, events, unread: Vec::new(), keys, clock })
    }

    /// Waits for the next event and asks for the rest.
    pub(super) async fn next(&mut self) -> Result<Sample, Failure> {
        let server = self.server.clone();
        let sample = async {
            let overview = self.event().await?;
            let rules = self.get("/api/v1/rules").await?;
            let keys = self.get(&self.keys.clone()).await?;
            Ok(Sample { at: self.clock.now(), overview, rules, keys })
        };
        server.within(sample).await
    }

    async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let response = self.client.get(path).await?;
        if response.status() != StatusCode::OK {
            return Err(self.server.refusal(&response));
        }
        self.server.json(response.body())
    }

    /// The newest event; older ones that wait as well are skipped.
    async fn event(&mut self) -> Result<Value, Failure> {
        loop {
            if let Some((event, end)) = newest_event(&self.unread) {
                let value = self.server.json(event);
                self.unread.drain(..end);
                return value;
            }
            if self.unread.len() > LONGEST_EVENT {
                let message = format!("an event has more than {LONGEST_EVENT} bytes");
                return Err(self.server.failed(&message));
            }
            let frame = self.events.frame().await;
            let frame = frame.ok_or_else(|| self.server.failed("the server ended its events"))?;
            let frame =
                frame.map_err(|error| self.server.failed(&self.client.no_answer(&error)))?;
            if let Ok(data) = frame.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }
}

impl Server {
    async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.unwrap_or_else(|_| Err(self.failed(&format!("no answer within {:?}", self.timeout))))
    }

    /// A failure that may pass.
    fn failed(&self, why: &str) -> Failure {
        Failure { message: format!("server {:?}: {why}", self.url), may_pass: true }
    }

    fn json(&self, text: &[u8]) -> Result<Value, Failure> {
        serde_json::from_slice(text).map_err(|error| {
            let message = format!("server {:?}: the answer is not JSON: {error}", self.url);
            Failure { message, may_pass: false }
        })
    }

    /// An answer that is no sample, in words.
    fn refusal(&self, response: &Response<Bytes>) -> Failure {
        let Server { url, has_token, .. } = self;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let detail = answer["detail"].as_str().unwrap_or("no reason given");
        let message = match response.status() {
            StatusCode::UNAUTHORIZED if *has_token => {
                "the admin port does not know this token".to_owned()
            }
            StatusCode::UNAUTHORIZED => {
                "the admin port needs a token: --token, or TOLLGATE_ADMIN_TOKEN".to_owned()
            }
            StatusCode::FORBIDDEN => format!("no permission: {detail}"),
            StatusCode::OK | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                "there is no /api/v1/stream; is this the admin port (8082 by default), and is the server as new as this program?".to_owned()
            }
            status => format!("{detail} ({status})"),
        };
        let may_pass = response.status().is_server_error();
        Failure { message: format!("server {url:?}: {message}"), may_pass }
    }
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The data of the last complete event, and where it ends.
fn newest_event(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).rposition(|pair| pair == b"\n\n")?;
    let before = &bytes[..end];
    let begin = before.windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |begin| begin + 2);
    let mut lines = before[begin..].split(|byte| *byte == b'\n');
    let data = lines.find_map(|line| line.strip_prefix(b"data: ")).unwrap_or_default();
    Some((data, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_event_is_taken() {
        let one = b"event: second\ndata: {\"a\":1}\n\n";
        let two = b"event: second\ndata: {\"a\":2}\n\n";
        let half = b"event: second\nda";
        assert_eq!(newest_event(half), None);
        assert_eq!(newest_event(one), Some((&b"{\"a\":1}"[..], one.len())));
        let both = [&one[..], two].concat();
        assert_eq!(newest_event(&both), Some((&b"{\"a\":2}"[..], both.len())));
        let more = [&one[..], half].concat();
        assert_eq!(newest_event(&more), Some((&b"{\"a\":1}"[..], one.len())));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = |status: u16, has_token: bool, body: &str| {
            let timeout = Duration::from_secs(1);
            let server = Server { url: "http://x".to_owned(), has_token, timeout };
            let mut response = Response::new(Bytes::from(body.to_owned()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            let failure = server.refusal(&response);
            (failure.to_string(), failure.may_pass)
        };
        for (status, has_token, body, text, may_pass) in [
            (401, false, "{}", "needs a token: --token, or TOLLGATE_ADMIN_TOKEN", false),
            (401, true, "{}", "does not know this token", false),
            (403, true, r#"{"detail":"why"}"#, "no permission: why", false),
            (404, true, "not json", "as new as this program", false),
            (503, true, r#"{"detail":"stream: 100 are open"}"#, "100 are open (503", true),
        ] {
            let (message, passes) = refused(status, has_token, body);
            assert!(message.contains(text) && message.contains("http://x"), "{message}");
            assert_eq!(passes, may_pass, "{status}");
        }
    }
}
