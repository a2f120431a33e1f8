//! A call with one message in and one out, by hand: Envoy's calls take this way, which has fewer
//! layers than the framework that serves all other calls.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use tonic::Status;

/// The bytes before a message in its frame: the flag "compressed" and the length.
const FRAME: usize = 5;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Reads the one message of a call.
pub(super) async fn message<M, B>(mut body: B, most: usize) -> Result<M, Status>
where
    M: prost::Message + Default,
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::cancelled(format!("message: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > most + FRAME {
            let text = format!("message: more than {most} bytes, the most this server takes");
            return Err(Status::resource_exhausted(text));
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    if rest.is_empty() {
        return decode(&first);
    }
    let mut whole = BytesMut::from(&first[..]);
    whole.unsplit(rest);
    decode(&whole)
}

/// The message in a frame.
pub(crate) fn decode<M: prost::Message + Default>(framed: &[u8]) -> Result<M, Status> {
    let (Some(flag), Some(length), Some(message)) =
        (framed.first(), framed.get(1..FRAME), framed.get(FRAME..))
    else {
        let text = format!("message: {} bytes, and its frame alone has {FRAME}", framed.len());
        return Err(Status::invalid_argument(text));
    };
    if *flag != 0 {
        return Err(Status::unimplemented("message: compressed, which this server does not take"));
    }
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    if length != message.len() {
        let text = format!("message: {} bytes, and its frame says {length}", message.len());
        return Err(Status::invalid_argument(text));
    }
    M::decode(message).map_err(|error| Status::invalid_argument(format!("message: {error}")))
}

/// The response to a call.
pub(super) fn response(answer: Result<impl prost::Message, Status>) -> Response<Body> {
    let message = match answer {
        Ok(message) => message,
        Err(status) => return status.into_http(),
    };
    let mut response = Response::new(Body::Message(encode(&message)));
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    response
}

/// The frame of a message, not compressed.
pub(crate) fn encode(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(FRAME + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut framed);
    framed.freeze()
}

/// The body of a response: a message with trailers, nothing, or the body of tonic.
#[derive(Debug, Default)]
pub(super) enum Body {
    Message(Bytes),
    Trailers,
    #[default]
    End,
    Tonic(tonic::body::Body),
}

/// Has no size hint: hyper would make a header of it, which gRPC does not need.
impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = self.get_mut();
        let (frame, next) = match body {
            Body::Message(message) => (Frame::data(std::mem::take(message)), Body::Trailers),
            Body::Trailers => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(&GRPC_STATUS, HeaderValue::from_static("0"));
                (Frame::trailers(trailers), Body::End)
            }
            Body::End => return Poll::Ready(None),
            Body::Tonic(body) => return Pin::new(body).poll_frame(cx),
        };
        *body = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Message(_) | Body::Trailers => false,
            Body::End => true,
            Body::Tonic(body) => body.is_end_stream(),
        }
    }
}

/// How long the caller waits: Envoy has its own header for that, other clients send the one of
/// gRPC.
pub(super) fn waits(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let envoy = text("x-envoy-expected-rq-timeout-ms")
        .and_then(|millis| millis.parse().ok())
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis);
    let grpc = text("grpc-timeout").and_then(timeout);
    envoy.into_iter().chain(grpc).min()
}

/// A number of at most eight digits and its unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_two_caller_timeouts_applies() {
        let waits_of = |fields: &[(&'static str, &'static str)]| {
            waits(
                &fields
                    .iter()
                    .map(|(name, value)| {
                        (
                            HeaderName::from_static(name),
                            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                        )
                    })
                    .collect(),
            )
        };
        let envoy = "x-envoy-expected-rq-timeout-ms";
        for (fields, millis) in [
            (&[][..], None),
            (&[(envoy, "250")], Some(250)),
            (&[(envoy, "0")], None),
            (&[(envoy, "soon")], None),
            (&[("grpc-timeout", "3S")], Some(3_000)),
            (&[("grpc-timeout", "20m"), (envoy, "250")], Some(20)),
            (&[("grpc-timeout", "2H"), (envoy, "250")], Some(250)),
            (&[("grpc-timeout", "123456789m")], None),
            (&[("grpc-timeout", "")], None),
            (&[("grpc-timeout", "ü")], None),
        ] {
            assert_eq!(waits_of(fields), millis.map(Duration::from_millis), "{fields:?}");
        }
    }
}
