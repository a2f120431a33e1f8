//! Plain hits that wait at the same time are one call of the script.
//!
//! The first hit is sent immediately; those that arrive before its answer are the next call. A
//! single server has two queues, so that it executes one call while the next is written and the
//! last is read. In a cluster each slot has a queue, because the keys of one call must share a slot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::{Error, Outcome};
use tollgate_remote::Queue;

use crate::command::{Call, Part};
use crate::{Inner, KEYS_IN_CALL, key};

/// The queues of a single server.
const QUEUES: u16 = 2;

/// A hit that waits.
#[derive(Debug)]
pub(crate) struct Job {
    hit: Part,
    /// How long its caller waits.
    deadline: Duration,
    reply: oneshot::Sender<Result<Outcome, Error>>,
}

/// Decides a plain hit, together with those of other callers.
pub(crate) async fn decide(
    inner: Arc<Inner>,
    hit: Part,
    deadline: Duration,
) -> Result<Outcome, Error> {
    let slot = key::slot(&hit.key);
    let name = if inner.servers.is_cluster() { slot } else { slot % QUEUES };
    let (reply, replied) = oneshot::channel();
    let job = Job { hit, deadline, reply };
    let worker = {
        let serve = |queue| serve(Arc::clone(&inner), slot, queue);
        inner.queues.push(name, job, true, serve)
    };
    if let Some(worker) = worker {
        worker.run().await;
    }
    // The worker gives a call up when none of its callers waits any more.
    replied.await.unwrap_or_else(|_| Err(Error::lost("the call was given up")))
}

/// Decides the hits of a queue, call after call, until none waits.
async fn serve(inner: Arc<Inner>, slot: u16, mut queue: Queue<u16, Job>) {
    loop {
        // Until there is a connection, callers may give up without being charged.
        inner.servers.connected(slot).await;
        let Some(mut jobs) = queue.take(KEYS_IN_CALL) else { return };
        jobs.retain(|job| !job.reply.is_closed());
        let answered = jobs.len();
        send(&inner, jobs).await;
        // Callers that were answered, and other tasks that are ready, add their next hits to the
        // next call.
        if answered > 1 {
            tokio::task::yield_now().await;
        }
    }
}

async fn send(inner: &Inner, jobs: Vec<Job>) {
    let Some(patience) = jobs.iter().map(|job| job.deadline).max() else { return };
    let (hits, replies): (Vec<Part>, Vec<_>) =
        jobs.into_iter().map(|job| (job.hit, job.reply)).unzip();
    let call = Call::hits(hits, None);
    let answered = {
        let _runtime = inner.runtime.enter();
        tokio::time::timeout(patience, inner.servers.run(&call))
    };
    match answered.await {
        Ok(Ok(decisions)) => {
            for (reply, decision) in replies.into_iter().zip(decisions) {
                let _ = reply.send(decision);
            }
        }
        Ok(Err(error)) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
        Err(_) => {}
    }
}
