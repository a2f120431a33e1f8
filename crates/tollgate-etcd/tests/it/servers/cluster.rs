//! Three members.

use tollgate_testservers::eventually;

use super::Member;

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let mut members: Vec<Member> = (0..3).map(Member::new).collect();
        let all: Vec<String> = members.iter().map(Member::known_as).collect();
        for member in &mut members {
            member.join(all.join(","));
        }
        members.iter().for_each(Member::answers);
        Cluster { members }
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> = self.members.iter().map(Member::address).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// The same, with that member first: it is used as long as it works.
    pub(crate) fn url_from(&self, first: usize) -> String {
        let order = (first..first + self.members.len()).map(|index| index % self.members.len());
        let addresses: Vec<String> = order.map(|index| self.members[index].address()).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// The index of the leader.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        eventually("somebody leads", || {
            leader = self.members.iter().position(Member::is_leader);
            leader.is_some()
        });
        leader.unwrap_or(0)
    }
}
