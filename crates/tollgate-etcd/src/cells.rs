//! Cells in etcd: one key each, changed by transactions that compare its revision.

use std::sync::Arc;

use tollgate::shared::Place;
use tollgate::{Error, Limit};
use tollgate_cas::{Cell, Cells, Change, Name, Swap, Swapped};

use crate::failure::Remedy;
use crate::leases::{self, Leases};
use crate::members::Members;
use crate::messages::{
    Compare, CompareTarget, Compared, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest,
    RangeResponse, Request, RequestOp, Response, ResponseOp, TxnRequest, TxnResponse,
};

/// Keys per slice when many are deleted.
const SLICE: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct EtcdCells {
    members: Arc<Members>,
    leases: Arc<Leases>,
    /// The prefix of all keys.
    prefix: Vec<u8>,
}

/// The revision of the last write, and its lease. A cluster that has lost everything counts its
/// revisions from one again, but a lease id is never used twice: so an old version never matches a
/// new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    revision: i64,
    lease: i64,
}

impl EtcdCells {
    pub(crate) fn new(members: Arc<Members>, prefix: Vec<u8>) -> EtcdCells {
        EtcdCells { members, leases: Arc::default(), prefix }
    }

    /// The leases of the values to put, in the order of the swaps.
    async fn leases(&self, swaps: &[Swap<'_, Version>]) -> Result<Vec<i64>, Error> {
        let mut leases = Vec::with_capacity(swaps.len());
        for swap in swaps {
            leases.push(match swap.change {
                Change::Put { keep, .. } => {
                    let on = swap.expected.map_or(leases::NONE, |version| version.lease);
                    self.leases.lasting(&self.members, keep, on).await?
                }
                Change::Keep | Change::Delete => leases::NONE,
            });
        }
        Ok(leases)
    }
}

impl Cells for EtcdCells {
    type Version = Version;

    const TOGETHER: bool = true;

    fn place(&self, namespace: &str, limit: Option<&Limit>) -> Vec<u8> {
        let place = match limit {
            Some(limit) => Place::new(namespace, limit).prefix().to_vec(),
            None => Place::of_namespace(namespace),
        };
        [&self.prefix[..], &place].concat()
    }

    async fn read(&self, names: &[Name]) -> Result<Vec<Option<Cell<Version>>>, Error> {
        if let [name] = names {
            return Ok(vec![cell(self.members.send(|| range(name)).await?)]);
        }
        let read = || {
            let success = names.iter().map(|name| op(Request::Range(range(name)))).collect();
            TxnRequest { success, ..TxnRequest::default() }
        };
        cells(self.members.send(read).await?.responses)
    }

    async fn swap(
        &self,
        swaps: &[Swap<'_, Version>],
        sure: bool,
    ) -> Result<Swapped<Version>, Error> {
        let mut leases = self.leases(swaps).await?;
        let mut answer = self.members.send(|| txn(swaps, &leases, sure)).await;
        if matches!(&answer, Err(failure) if failure.remedy == Remedy::NewLease) {
            self.leases.forget(&leases);
            leases = self.leases(swaps).await?;
            answer = self.members.send(|| txn(swaps, &leases, sure)).await;
        }
        swapped(answer?, swaps, &leases)
    }

    async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        let mut from = place.to_vec();
        loop {
            let list = || RangeRequest {
                key: from.clone(),
                range_end: after(place),
                limit: SLICE,
                keys_only: true,
            };
            let list = self.members.in_time(async { Ok(self.members.send(list).await?) }).await?;
            let (Some(first), Some(last)) = (list.kvs.first(), list.kvs.last()) else {
                return Ok(());
            };
            let end = [&last.key[..], &[0]].concat();
            let slice = || DeleteRangeRequest { key: first.key.clone(), range_end: end.clone() };
            self.members.in_time(async { Ok(self.members.send(slice).await?) }).await?;
            if !list.more {
                return Ok(());
            }
            from = end;
        }
    }

    async fn check(&self) -> Result<(), Error> {
        self.members.check().await
    }

    fn suspect(&self) {
        let members = Arc::clone(&self.members);
        self.members.runtime.spawn(async move { members.suspect().await });
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn range(name: &Name) -> RangeRequest {
    RangeRequest { key: name.bytes().to_vec(), ..RangeRequest::default() }
}

/// The end of the range of keys with this prefix.
fn after(place: &[u8]) -> Vec<u8> {
    let mut end = place.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No key is after the range: to the end of all keys.
    vec![0]
}

/// A transaction: if all versions are as expected, everything changes. Otherwise it returns the
/// cells, unless the caller is sure of the versions.
fn txn(swaps: &[Swap<'_, Version>], leases: &[i64], sure: bool) -> TxnRequest {
    let compare = swaps.iter().flat_map(compares).collect();
    let change = |(swap, lease): (&Swap<'_, Version>, &i64)| {
        let key = swap.name.bytes().to_vec();
        match swap.change {
            Change::Keep => None,
            Change::Put { value, .. } => {
                Some(Request::Put(PutRequest { key, value: value.to_vec(), lease: *lease }))
            }
            Change::Delete => {
                Some(Request::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() }))
            }
        }
    };
    let success: Vec<_> = swaps.iter().zip(leases).filter_map(change).map(op).collect();
    // Without a write or a read in it, a member would compare with its own data, which may be old.
    let look = !sure || success.is_empty();
    let looks = swaps.iter().filter(|_| look).map(|swap| op(Request::Range(range(swap.name))));
    TxnRequest { compare, success, failure: looks.collect() }
}

fn compares(swap: &Swap<'_, Version>) -> impl Iterator<Item = Compare> + use<> {
    let key = swap.name.bytes();
    let compare = |target: CompareTarget, value| Compare {
        target: target.into(),
        key: key.to_vec(),
        value: Some(value),
    };
    let revision = swap.expected.map_or(0, |version| version.revision);
    let revision = compare(CompareTarget::Mod, Compared::ModRevision(revision));
    let leased = swap.expected.filter(|version| version.lease != leases::NONE);
    let lease = leased.map(|version| compare(CompareTarget::Lease, Compared::Lease(version.lease)));
    std::iter::once(revision).chain(lease)
}

fn swapped(
    answer: TxnResponse,
    swaps: &[Swap<'_, Version>],
    leases: &[i64],
) -> Result<Swapped<Version>, Error> {
    if !answer.succeeded {
        let looked = !answer.responses.is_empty();
        return Ok(Swapped::Lost(looked.then(|| cells(answer.responses)).transpose()?));
    }
    let header = answer.header.ok_or_else(|| Error::lost("a transaction without a revision"))?;
    let version = |(swap, lease): (&Swap<'_, Version>, &i64)| match swap.change {
        Change::Keep => swap.expected,
        Change::Put { .. } => Some(Version { revision: header.revision, lease: *lease }),
        Change::Delete => None,
    };
    Ok(Swapped::Done(swaps.iter().zip(leases).map(version).collect()))
}

fn cells(responses: Vec<ResponseOp>) -> Result<Vec<Option<Cell<Version>>>, Error> {
    let read = |op: ResponseOp| match op.response {
        Some(Response::Range(range)) => Ok(cell(range)),
        _ => Err(Error::store("unexpected response in a transaction", false)),
    };
    responses.into_iter().map(read).collect()
}

fn cell(range: RangeResponse) -> Option<Cell<Version>> {
    let KeyValue { mod_revision: revision, lease, value, .. } = range.kvs.into_iter().next()?;
    Some(Cell { value, version: Version { revision, lease } })
}
