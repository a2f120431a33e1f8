//! Faults planted in messages, to check that they are detected.

use std::collections::HashMap;

use tollgate_cluster::replicated::{Actor, Body, Message, Tallies, Tally};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    Nothing,
    /// A receiver counts a received count in its own current slot.
    NoSlot,
    /// Counts are sent as increments since the last message, and added up.
    Increments,
}

/// The units that a planted fault has sent and added up, by actors, key and slot.
#[derive(Debug, Default)]
pub(super) struct Planted {
    sent: HashMap<(Actor, Vec<u8>, u64), u64>,
    summed: HashMap<(Actor, Actor, Vec<u8>, u64), u64>,
}

impl Planted {
    /// The message that is sent instead.
    pub(super) fn send(&mut self, plant: Plant, bytes: Vec<u8>) -> Vec<u8> {
        if plant != Plant::Increments {
            return bytes;
        }
        rewrite(&bytes, |from, key, _, tally| {
            let sent = self.sent.entry((from, key.to_vec(), tally.slot)).or_default();
            let more = tally.charged - *sent;
            *sent = tally.charged;
            tally.charged = more;
        })
    }

    /// The message that is received instead, at that time of the receiver's clock.
    pub(super) fn receive(&mut self, plant: Plant, to: Actor, now: u64, bytes: &[u8]) -> Vec<u8> {
        match plant {
            Plant::Nothing => bytes.to_vec(),
            Plant::NoSlot => rewrite(bytes, |_, _, _, tally| tally.slot = now / tally.span),
            Plant::Increments => rewrite(bytes, |from, key, _, tally| {
                let sum = self.summed.entry((to, from, key.to_vec(), tally.slot)).or_default();
                *sum += tally.charged;
                tally.charged = *sum;
            }),
        }
    }
}

/// Changes every count of a message. A sender of increments has nothing to answer when asked for
/// all.
fn rewrite(bytes: &[u8], mut change: impl FnMut(Actor, &[u8], Actor, &mut Tally)) -> Vec<u8> {
    let Some(mut message) = Message::read(bytes) else { return bytes.to_vec() };
    let from = message.from;
    match &mut message.body {
        Body::Delta(tallies) => {
            let Tallies { actors, limits } = tallies;
            for key in limits.iter_mut().flat_map(|limit| &mut limit.keys) {
                for tally in &mut key.tallies {
                    change(from, &key.key, actors[tally.actor as usize], tally);
                }
            }
        }
        Body::Answer(tallies, _) => *tallies = Tallies::default(),
        _ => {}
    }
    message.write()
}
