//! Stores with a planted fault in their holds. Each named rule must catch the fault.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::hold::{HoldCall, HoldId, HoldItem, HoldReply};
use tollgate::shared::{Ask, Guard, HitItem, InProcess, SharedStore};
use tollgate::{Error, Limit, Memory, Outcome, Timestamp};
use tollgate_testkit::{OneStore, rules};

use crate::planted::is_caught;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A settlement that was already applied frees the slots of another hold.
    FreesAnotherSlot,
    /// A repeated settlement gives its units back again.
    SettlesTwice,
    /// Deadlines are judged by the clock of the caller, and not by the time of the store.
    CallersClock,
    /// A settlement gives units back to the current window, and not by receipt.
    WrongWindow,
    /// A reservation whose reply was lost takes another slot when it is repeated.
    LeaksLostReplies,
    /// A release frees nothing: slots become free at the deadline only.
    NeverReleases,
}

/// A hold and its items.
type Opened = (HoldId, Vec<HoldItem>);

/// Memory whose calls on holds are changed by a fault.
#[derive(Clone, Debug)]
struct Planted {
    fault: Fault,
    memory: InProcess<Memory>,
    /// The holds that were opened, with their items.
    opened: Arc<Mutex<Vec<Opened>>>,
}

impl Planted {
    fn new(fault: Fault) -> Planted {
        let memory = Memory::builder().clean_period(Duration::MAX).build();
        Planted { fault, memory: InProcess::new(memory), opened: Arc::default() }
    }

    async fn decide(
        self,
        namespace: String,
        id: HoldId,
        call: HoldCall,
        at: Option<Timestamp>,
    ) -> Result<HoldReply, Error> {
        let inner = |id: HoldId, call: HoldCall, at| {
            let (memory, namespace) = (self.memory.clone(), namespace.clone());
            async move { memory.hold(&namespace, &id, &call, at, Duration::MAX).await }
        };
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let items =
            opened().iter().rev().find(|(known, _)| *known == id).map(|(_, items)| items.clone());
        match (self.fault, &call) {
            (Fault::CallersClock, _) => return inner(id, call, None).await,
            (Fault::LeaksLostReplies, HoldCall::Reserve { .. }) if items.is_some() => {
                let other = HoldId::random("another");
                return inner(other, call, at).await;
            }
            (Fault::NeverReleases, HoldCall::Settle(_)) => {
                return inner(id, HoldCall::LookUp, at).await;
            }
            (Fault::WrongWindow, HoldCall::Settle(figures)) if items.is_some() => {
                let reply = inner(id, HoldCall::Settle(vec![]), at).await?;
                let back = reply.items[0].units.saturating_sub(figures[0].unwrap_or(0));
                self.refund(&namespace, &items.unwrap_or_default(), back, at).await?;
                return Ok(reply);
            }
            _ => {}
        }
        let reply = inner(id.clone(), call.clone(), at).await?;
        match (self.fault, &call) {
            (_, HoldCall::Reserve { items, .. }) if reply.is_open() && !reply.repeated => {
                opened().push((id, items.clone()));
            }
            (Fault::FreesAnotherSlot, HoldCall::Settle(_)) if reply.repeated => {
                let others: Vec<_> = opened().iter().map(|(other, _)| other.clone()).collect();
                for other in others.into_iter().filter(|other| *other != id) {
                    let _ = inner(other, HoldCall::Settle(vec![]), at).await?;
                }
            }
            (Fault::SettlesTwice, HoldCall::Settle(_)) if reply.repeated => {
                self.refund(&namespace, &items.unwrap_or_default(), 100, at).await?;
            }
            _ => {}
        }
        Ok(reply)
    }

    /// Gives units of the first item back as if they had been charged now.
    async fn refund(
        &self,
        namespace: &str,
        items: &[HoldItem],
        units: u64,
        at: Option<Timestamp>,
    ) -> Result<(), Error> {
        let Some(item) = items.first() else { return Ok(()) };
        let prepared = self.memory.prepare(namespace, &item.policy.limits()[0])?;
        let ask =
            Ask { prepared: &prepared, key: item.key.as_key_ref(), op: Op::RefundUnits(units) };
        self.memory.ask_each(&[ask], at, Duration::MAX).await.map(drop)
    }
}

impl SharedStore for Planted {
    type Prepared = <InProcess<Memory> as SharedStore>::Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error> {
        self.memory.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.memory.ask_each(asks, at, deadline)
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.memory.ask_together(hits, at, deadline)
    }

    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<HoldReply, Error>> + Send + use<> {
        self.clone().decide(namespace.to_owned(), id.clone(), call.clone(), at)
    }

    fn keeps_holds(&self) -> Result<(), Error> {
        Ok(())
    }

    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.memory.clear(prepared)
    }

    fn guard(&self) -> &Guard {
        self.memory.guard()
    }
}

macro_rules! caught {
    ($($fault:ident by $($rule:ident),+;)+) => {
        $(#[expect(non_snake_case, reason = "the module is named after the fault")]
        mod $fault {
            use super::*;

            $(#[test]
            fn $rule() {
                let run = || rules::holds::$rule(&OneStore::new(Planted::new(Fault::$fault)));
                assert!(is_caught(run), "{:?} went unseen", Fault::$fault);
            })+
        })+
    };
}

caught! {
    FreesAnotherSlot by
        a_release_frees_no_other_slot,
        random_holds_equal_the_definition;
    SettlesTwice by
        a_settlement_is_applied_once,
        random_holds_equal_the_definition;
    CallersClock by
        an_expired_hold_frees_its_slots_and_keeps_its_charges,
        random_holds_equal_the_definition;
    WrongWindow by
        a_refund_reaches_only_the_window_that_was_charged;
    LeaksLostReplies by
        a_lost_reply_leaks_nothing,
        random_holds_equal_the_definition;
    NeverReleases by
        a_release_frees_no_other_slot,
        concurrent_holders_never_exceed_the_limit;
}
