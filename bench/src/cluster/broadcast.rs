//! The recipe: every node counts the hits that it admits and those that others report, and reports
//! each of its own.

use super::fleet::Answer;
use crate::Outcome;
use crate::redis::server::Server;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tollgate::{Clock, SystemClock};

/// Hits that wait to be sent. Further ones are lost, as in any bounded queue.
const WAITING: usize = 100_000;

pub(crate) struct Broadcast {
    quota: u64,
    counts: Arc<Mutex<HashMap<u64, u64>>>,
    out: mpsc::Sender<u64>,
    sent: Arc<AtomicU64>,
    clock: SystemClock,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Broadcast {
    pub(crate) async fn start(redis: &Server, channel: &str, quota: u64) -> Outcome<Broadcast> {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let name = NAMES.fetch_add(1, Ordering::Relaxed);
        let client = redis::Client::open(redis.url())?;
        let mut heard = client.get_async_pubsub().await?;
        heard.subscribe(channel).await?;
        let mut publisher = client.get_multiplexed_async_connection().await?;
        let (out, mut hits) = mpsc::channel::<u64>(WAITING);
        let counts: Arc<Mutex<HashMap<u64, u64>>> = Arc::default();
        let (sent, channel) = (Arc::new(AtomicU64::new(0)), channel.to_owned());
        let others = {
            let counts = Arc::clone(&counts);
            tokio::spawn(async move {
                let mut messages = heard.on_message();
                while let Some(message) = messages.next().await {
                    let text: String = message.get_payload().unwrap_or_default();
                    let Some((from, window)) = text.split_once(' ') else { continue };
                    if from != name.to_string() {
                        let window = window.parse().unwrap_or_default();
                        *lock(&counts).entry(window).or_default() += 1;
                    }
                }
            })
        };
        let own = {
            let sent = Arc::clone(&sent);
            tokio::spawn(async move {
                let mut windows = Vec::new();
                while hits.recv_many(&mut windows, 256).await > 0 {
                    let mut pipeline = redis::pipe();
                    for window in windows.drain(..) {
                        pipeline.publish(&channel, format!("{name} {window}")).ignore();
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    let _: Result<(), _> = pipeline.query_async(&mut publisher).await;
                }
            })
        };
        let clock = SystemClock::new();
        Ok(Broadcast { quota, counts, out, sent, clock, tasks: vec![others, own] })
    }

    pub(crate) fn hit(&self) -> Answer {
        let window = self.clock.now().as_micros() / 1_000_000;
        let mut counts = lock(&self.counts);
        let count = counts.entry(window).or_default();
        let allowed = *count < self.quota;
        if allowed {
            *count += 1;
            drop(counts);
            let _ = self.out.try_send(window);
        }
        Answer { allowed, window }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
