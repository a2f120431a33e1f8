//! A request for a hold that is being made, for stores of both kinds.

use std::sync::Arc;
use std::time::Duration;

use super::{HoldCall, HoldId, HoldItem};
use crate::error::Error;
use crate::key::{Key, OwnedKey};
use crate::policy::Policy;

#[derive(Clone, Debug)]
pub(crate) struct Draft {
    namespace: Arc<str>,
    pub(crate) items: Vec<HoldItem>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) id: Option<Box<[u8]>>,
    /// The first item that cannot be part of this hold.
    foreign: Option<usize>,
}

impl Draft {
    pub(crate) fn new<K: Key>(
        namespace: &Arc<str>,
        policy: &Arc<Policy>,
        key: &K,
        units: u64,
    ) -> Draft {
        let namespace = Arc::clone(namespace);
        let mut draft = Draft { namespace, items: vec![], ttl: None, id: None, foreign: None };
        draft.push(policy, key, units);
        draft
    }

    /// Adds an item of limits on the same store or another one.
    pub(crate) fn add<K: Key>(
        &mut self,
        same_store: bool,
        namespace: &str,
        policy: &Arc<Policy>,
        key: &K,
        units: u64,
    ) {
        if !same_store || *namespace != *self.namespace {
            self.foreign.get_or_insert(self.items.len());
        }
        self.push(policy, key, units);
    }

    fn push<K: Key>(&mut self, policy: &Arc<Policy>, key: &K, units: u64) {
        let key = OwnedKey::new(key);
        self.items.push(HoldItem { policy: Arc::clone(policy), key, units, clamp: false });
    }

    pub(crate) fn clamp(&mut self) {
        if let Some(last) = self.items.last_mut() {
            last.clamp = true;
        }
    }

    pub(crate) fn call(self) -> Result<(Arc<str>, HoldId, HoldCall), Error> {
        if let Some(index) = self.foreign {
            return Err(Error::request(format!(
                "item {index}: belongs to another store or namespace than item 0; a hold is within one"
            )));
        }
        let Some(first) = self.items.first() else {
            return Err(Error::request("0 items: a hold needs at least one"));
        };
        let id = match &self.id {
            Some(id) => HoldId::new(&first.key, id)?,
            None => HoldId::random(&first.key),
        };
        Ok((self.namespace, id, HoldCall::Reserve { items: self.items, ttl: self.ttl }))
    }
}
