//! The timelines of `vectors/`.

use tollgate::algorithm::Op;
use tollgate::{Outcome, Timestamp};

use crate::ground::{Ground, Limited};
use crate::subject::Subject;
use crate::vectors::{self, Answerer, Block};

/// A fresh key of the store answers every step of every vector as written.
pub fn vectors_are_answered_as_written<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let mut failures: Vec<String> = Vec::new();
    for block in vectors::all() {
        let ground = ground.within(&format!("/{}", block.place));
        let Some(limited) = ground.limited(&block.limit) else { continue };
        failures.extend(vectors::replay(&block, &mut Kept::new(limited, &block)).err());
    }
    assert!(failures.is_empty(), "{} blocks fail:\n{}", failures.len(), failures.join("\n"));
}

/// A key of the store.
struct Kept<'s, S: Subject> {
    limited: Limited<'s, S>,
    counts_to: u64,
}

impl<'s, S: Subject> Kept<'s, S> {
    fn new(limited: Limited<'s, S>, block: &Block) -> Self {
        let counts_to = limited.subject.counts_to(&block.limit);
        Kept { limited, counts_to }
    }
}

const KEY: &str = "user:42";

impl<S: Subject> Answerer for Kept<'_, S> {
    fn apply(&mut self, now: Timestamp, op: Op) -> Outcome {
        self.limited.apply(now, KEY, op)
    }

    fn usage(&mut self, now: Timestamp) -> u64 {
        self.limited.usage(now, KEY)
    }

    fn reset(&mut self, now: Timestamp) -> bool {
        self.limited.reset(now, KEY)
    }

    fn counts_to(&self) -> u64 {
        self.counts_to
    }
}
