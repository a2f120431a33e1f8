//! Clients that wait their turn, in tokio's paused time, which jumps when no task can run: no test
//! sleeps.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tollgate::{Clock, Limiter, Memory, Timestamp};
use tollgate_tower::{Gate, KeyBy, PaceError, PaceLayer, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::flaky::Flaky;
use crate::net::{serve, stopped};

/// A clock in tokio's time, in which tests can wait for hours.
#[derive(Clone, Copy, Debug)]
struct TokioTime(tokio::time::Instant);

impl TokioTime {
    fn start() -> TokioTime {
        TokioTime(tokio::time::Instant::now())
    }

    fn seconds(self) -> u64 {
        self.0.elapsed().as_secs()
    }
}

impl Clock for TokioTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000 + self.0.elapsed().as_micros() as u64)
    }
}

fn limiter(time: TokioTime, limit: &str) -> Limiter<Memory<TokioTime>> {
    Memory::builder().clock(time).build().limiter(limit).unwrap()
}

fn to(host: &str) -> Request<()> {
    Request::builder().uri(format!("http://{host}/")).body(()).unwrap()
}

/// A server with prepared answers, which notes the second of each request.
#[derive(Clone)]
struct Far {
    time: TokioTime,
    asked: Arc<Mutex<Vec<u64>>>,
    answers: Arc<Mutex<Vec<Response<()>>>>,
}

impl Far {
    fn new(time: TokioTime, mut answers: Vec<Response<()>>) -> Far {
        answers.reverse();
        Far { time, asked: Arc::default(), answers: Arc::new(Mutex::new(answers)) }
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Service<Request<()>> for Far {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.asked.lock().unwrap().push(self.time.seconds());
        std::future::ready(Ok(self.answers.lock().unwrap().pop().unwrap_or_default()))
    }
}

fn answer(status: u16, name: &'static str, value: &str) -> Response<()> {
    Response::builder().status(status).header(name, value).body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_stays_under_its_limit_by_waiting() {
    let time = TokioTime::start();
    let far = Far::new(time, vec![]);
    let layer =
        PaceLayer::new(limiter(time, "1/10s")).clock(time).max_wait(Duration::from_secs(60));
    let mut client = layer.layer(far.clone());
    for _ in 0..4 {
        client.ready().await.unwrap().call(to("a.example")).await.unwrap();
    }
    assert_eq!(far.asked(), [0, 10, 20, 30]);
    // Another host has its own limit.
    client.ready().await.unwrap().call(to("b.example")).await.unwrap();
    assert_eq!(far.asked().last(), Some(&30));
    // Another spelling is the same host.
    client.ready().await.unwrap().call(to("B.example:80")).await.unwrap();
    assert_eq!(far.asked().last(), Some(&40));
}

#[tokio::test(start_paused = true)]
async fn concurrent_clients_wait_one_after_the_other() {
    let time = TokioTime::start();
    let far = Far::new(time, vec![]);
    let layer =
        PaceLayer::new(limiter(time, "1/10s")).clock(time).max_wait(Duration::from_secs(60));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5 {
        tasks.spawn(layer.layer(far.clone()).oneshot(to("a.example")));
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(far.asked(), [0, 10, 20, 30, 40]);
}

#[tokio::test(start_paused = true)]
async fn waits_that_servers_ask_for_are_obeyed() {
    let time = TokioTime::start();
    let far = Far::new(
        time,
        vec![
            answer(429, "retry-after", "7"),
            answer(503, "retry-after", "Thu, 01 Jan 1970 00:00:28 GMT"),
            answer(200, "ratelimit", r#""api";r=0;t=3, "day";r=5;t=900"#),
            answer(200, "ratelimit", r#""api";r=1;t=900"#),
            answer(202, "retry-after", "900"),
            answer(429, "retry-after", "whenever"),
        ],
    );
    let mut client = PaceLayer::obeying().clock(time).layer(far.clone());
    for _ in 0..7 {
        client.ready().await.unwrap().call(to("a.example")).await.unwrap();
    }
    // The clock of the test began at second 1.
    assert_eq!(far.asked(), [0, 7, 27, 30, 30, 30, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_fails_immediately_and_the_hold_ends() {
    let time = TokioTime::start();
    let far = Far::new(time, vec![answer(429, "retry-after", "60")]);
    let layer = PaceLayer::new(limiter(time, "2/day burst=2")).clock(time);
    let layer = layer.max_wait(Duration::from_secs(59));
    let mut client = layer.layer(far.clone());
    client.ready().await.unwrap().call(to("a.example")).await.unwrap();
    let refused = client.ready().await.unwrap().call(to("a.example")).await;
    let Err(PaceError::TooLong(Some(wait))) = refused else { panic!("{refused:?}") };
    assert_eq!((wait, time.seconds()), (Duration::from_secs(60), 0));
    tokio::time::advance(Duration::from_secs(1)).await;
    client.ready().await.unwrap().call(to("a.example")).await.unwrap();
    assert_eq!(far.asked(), [0, 60]);
    // Now the client's own limit is used up.
    let refused = client.ready().await.unwrap().call(to("a.example")).await;
    assert!(matches!(refused, Err(PaceError::TooLong(Some(_)))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn no_server_silences_a_client_for_more_than_a_day() {
    let time = TokioTime::start();
    let far = Far::new(time, vec![answer(429, "retry-after", "99999999999999999999")]);
    let mut client = PaceLayer::obeying().clock(time).layer(far.clone());
    client.ready().await.unwrap().call(to("a.example")).await.unwrap();
    let refused = client.ready().await.unwrap().call(to("a.example")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "not sent: its turn is in 86400s, which is more than it may wait"
    );
    tokio::time::advance(Duration::from_secs(86_400)).await;
    client.ready().await.unwrap().call(to("a.example")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_need_not_be_hosts() {
    let time = TokioTime::start();
    let far = Far::new(time, vec![]);
    let layer = PaceLayer::new(limiter(time, "1/day"))
        .clock(time)
        .key(|head, _| head.line("x-account").unwrap_or_default().to_vec());
    for (account, passes) in [("a", true), ("b", true), ("a", false)] {
        let mut request = to("a.example");
        request.headers_mut().insert("x-account", account.parse().unwrap());
        assert_eq!(layer.layer(far.clone()).oneshot(request).await.is_ok(), passes);
    }
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_and_nothing_is_sent() {
    let store = Flaky::new();
    store.fail(true);
    let sent =
        service_fn(|_: Request<()>| async { panic!("sent") as Result<Response<()>, Infallible> });
    let refused = PaceLayer::new(store.limiter("1/day")).layer(sent).oneshot(to("a.example")).await;
    let Err(PaceError::Store(error)) = refused else { panic!("{refused:?}") };
    assert!(error.is_transient());
}

/// tollgate's server and tollgate's client: the client obeys the server. Not in paused time, which
/// does not work with sockets.
#[tokio::test]
async fn a_real_client_obeys_a_real_server() {
    let limited = RateLimitLayer::from_gate(Gate::new(stopped().limiter("1/hour").unwrap()));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limited);
    let server = serve(app).await;
    let http = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut client = PaceLayer::obeying().layer(http);
    let mut get = async || {
        let uri = format!("http://{server}/");
        let request = Request::builder().uri(uri).body(Empty::<Bytes>::new()).unwrap();
        client.ready().await.unwrap().call(request).await
    };
    assert_eq!(get().await.unwrap().status(), 200, "and says that nothing is left for an hour");
    let refused = get().await.unwrap_err();
    let PaceError::TooLong(Some(wait)) = refused else { panic!("{refused:?}") };
    assert!(wait > Duration::from_secs(3_000), "{wait:?}");
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn reqwest_is_paced_too() {
    let limited = RateLimitLayer::from_gate(Gate::new(stopped().limiter("1/hour").unwrap()));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limited);
    let server = serve(app).await;
    let mut client = PaceLayer::obeying().layer(reqwest::Client::new());
    let request = || {
        reqwest::Request::new("GET".parse().unwrap(), format!("http://{server}/").parse().unwrap())
    };
    assert_eq!(client.ready().await.unwrap().call(request()).await.unwrap().status(), 200);
    let refused = client.ready().await.unwrap().call(request()).await.unwrap_err();
    assert!(matches!(refused, PaceError::TooLong(Some(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_the_next_unit_not_for_all() {
    for limit in ["6/minute", "6/minute moving-window", "9/hour; 6/minute"] {
        let time = TokioTime::start();
        let limiter = Memory::builder().clock(time).build().limiter(limit).unwrap();
        let gate = Gate::new(limiter).key(KeyBy::everyone());
        let hello = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) });
        let server = RateLimitLayer::from_gate(gate).layer(hello);
        let pace = PaceLayer::obeying().clock(time).max_wait(Duration::from_secs(600));
        let mut client = pace.layer(server);
        for _ in 0..6 {
            // Spread, so that the first entry of a moving window leaves before the others.
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(client.ready().await.unwrap().call(to("a")).await.unwrap().status(), 200);
        }
        let sent = time.seconds();
        let next = client.ready().await.unwrap().call(to("a")).await.unwrap();
        assert_eq!(next.status(), 200, "{limit}: refused although it has waited as told");
        let waited = time.seconds() - sent;
        let most = if limit.contains("moving") { 55 } else { 10 };
        assert!((1..=most).contains(&waited), "{limit}: {waited} s");
    }
}
