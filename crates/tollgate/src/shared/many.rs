//! Hits on many keys in one call, which are decided independently.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Poll;

use super::asking::{LimiterParts, Terms};
use super::forget::Call;
use super::{Ask, SharedStore};
use crate::algorithm::Op;
use crate::error::Error;
use crate::key::{Key, OwnedKey, ShortKey};
use crate::outcome::Outcome;

impl<S: SharedStore> LimiterParts<S> {
    /// Hits each key independently.
    pub(crate) async fn hit_each<K: Key>(
        &self,
        terms: Terms,
        keys: &[K],
    ) -> Result<Vec<Outcome>, Error> {
        let keys: Vec<_> = keys.iter().map(ShortKey::of).collect();
        let sent = self.store.guard().now();
        let mut decisions: Vec<Option<Outcome>> = vec![None; keys.len()];
        let mut sent_calls: Vec<Option<Call<'_, S, ShortKey<'_, K>>>> =
            keys.iter().map(|_| None).collect();
        // The keys about which to ask the store, by lane (a part of the store that fails as a
        // whole).
        let mut lanes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, key) in keys.iter().enumerate() {
            match key.with_key(|key| self.recall(&self.denial_lookup(terms, sent, key, 1))) {
                Ok(remembered) => decisions[index] = remembered.first().copied(),
                Err(epoch) => {
                    sent_calls[index] = Some(Call::sent(self, terms, key, sent, epoch));
                    lanes.entry(key.with_key(|key| self.lane(key))).or_default().push(index);
                }
            }
        }
        let ask = async |lane: usize, indexes: &[usize]| {
            let owned: Vec<_> = indexes.iter().map(|index| OwnedKey::new(&keys[*index])).collect();
            let prepared = &self.prepared[0];
            let begin = |deadline| {
                let ask = |key| Ask { prepared, key: OwnedKey::as_key_ref(key), op: Op::Hit(1) };
                let asks: Vec<_> = owned.iter().map(ask).collect();
                self.store.ask_each(&asks, terms.at, deadline)
            };
            self.store.guard().call(lane, terms.deadline, begin).await
        };
        let calls: Vec<_> = lanes.iter().map(|(lane, indexes)| ask(*lane, indexes)).collect();
        let answers = join_all(calls).await;
        for (indexes, answer) in lanes.values().zip(answers) {
            for (position, index) in indexes.iter().enumerate() {
                let key = &keys[*index];
                let call = sent_calls[*index].take();
                match &answer {
                    Ok(answers) => {
                        decisions[*index] = answers.get(position).copied();
                        if let (Some(call), Some(decision)) = (call, &decisions[*index]) {
                            call.decided(1, std::slice::from_ref(decision));
                        }
                    }
                    Err(error) => {
                        call.into_iter().for_each(|call| call.failed(error));
                        let instead = self.without_store(error, terms, key, Op::Hit(1));
                        let instead = instead.ok_or_else(|| error.clone())?;
                        decisions[*index] = instead.first().copied();
                    }
                }
            }
        }
        let all: Option<Vec<Outcome>> = decisions.into_iter().collect();
        all.ok_or_else(|| Error::store("the store returned fewer decisions than keys", false))
    }
}

/// Awaits all calls concurrently, in order.
async fn join_all<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.into_iter().map(|call| (Box::pin(call), None)).collect();
    poll_fn(|cx| {
        for (call, output) in calls.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = call.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if calls.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, output)| output).collect()
}
