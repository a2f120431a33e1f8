//! The conformance suite on etcd, over all kinds of connections.

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{KeyRef, Limit};
use tollgate_etcd::{Etcd, EtcdBuilder};
use tollgate_testkit::{Kept, Subject, conformance, rules};

use crate::bare::Bare;
use crate::client::{LONG, runtime};
use crate::servers::{Certificates, Cluster, Member, Together};

/// How a process reaches a store: the address, and the directory of the certificates.
#[derive(Clone, Debug)]
struct Address {
    url: String,
    certificates: Option<[PathBuf; 3]>,
}

impl Address {
    fn builder(&self) -> EtcdBuilder {
        let builder = Etcd::builder(&self.url[..]).connect_timeout(LONG);
        let Some(files) = &self.certificates else { return builder };
        let [roots, certificate, key] = files.each_ref().map(|path| {
            std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        });
        builder.root_certificates(roots).client_certificate(certificate, key)
    }

    /// One line for each field.
    fn text(&self) -> String {
        let files = self.certificates.iter().flatten().map(|path| path.display().to_string());
        std::iter::once(self.url.clone()).chain(files).collect::<Vec<_>>().join("\n")
    }

    fn of_text(text: &str) -> Option<Address> {
        let mut lines = text.split('\n');
        let url = lines.next()?.to_owned();
        let files: Vec<PathBuf> = lines.map(PathBuf::from).collect();
        Some(Address { url, certificates: files.try_into().ok() })
    }
}

/// How a member is broken.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Kill,
    KillAndForget,
    Freeze,
}

/// A store under test.
struct OnEtcd {
    address: Address,
    // Dropped before the runtime, on which its connections live.
    store: Etcd,
    bare: Option<Bare>,
    runtime: Runtime,
    broken: Option<(Mutex<Member>, Outage)>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl OnEtcd {
    fn new(address: Address, kept: impl Any + Send + Sync) -> OnEtcd {
        let runtime = runtime();
        let connect = address.builder().connect();
        let store = runtime.block_on(connect).unwrap_or_else(|error| panic!("{error}"));
        OnEtcd { address, store, bare: None, runtime, broken: None, _kept: Box::new(kept) }
    }

    fn one_member() -> OnEtcd {
        static MEMBER: Together<Member> = Together::new();
        let member = MEMBER.or_start(|| Member::start(&[]));
        let (url, port) = (member.url(), member.port);
        let subject = OnEtcd::new(Address { url, certificates: None }, member);
        let bare = subject.runtime.block_on(async { Bare::to(port) });
        OnEtcd { bare: Some(bare), ..subject }
    }

    fn three_members() -> OnEtcd {
        static CLUSTER: Together<Cluster> = Together::new();
        let cluster = CLUSTER.or_start(Cluster::start);
        OnEtcd::new(Address { url: cluster.url(), certificates: None }, cluster)
    }

    fn over_tls() -> OnEtcd {
        static MEMBER: Together<(Member, Certificates)> = Together::new();
        let member = MEMBER.or_start(|| {
            let certificates = Certificates::new();
            (Member::start_tls(&certificates), certificates)
        });
        let files = ["ca.crt", "client.crt", "client.key"].map(|name| member.1.file(name));
        let address = Address { url: member.0.url(), certificates: Some(files) };
        OnEtcd::new(address, Arc::clone(&member))
    }

    fn with_a_login() -> OnEtcd {
        static MEMBER: Together<Member> = Together::new();
        let member = MEMBER.or_start(|| Member::start_with_users(&[]));
        let url = format!("etcd://alice:open%20sesame@{}", member.address());
        OnEtcd::new(Address { url, certificates: None }, member)
    }

    /// A store on a separate member that may be broken.
    fn broken_by(outage: Outage) -> OnEtcd {
        let member = Member::start(&[]);
        let address = Address { url: member.url(), certificates: None };
        OnEtcd { broken: Some((Mutex::new(member), outage)), ..OnEtcd::new(address, ()) }
    }
}

impl Subject for OnEtcd {
    type Store = Etcd;

    fn store(&self) -> Etcd {
        // A rule may have broken the members meanwhile.
        let _on_it = self.runtime.enter();
        self.address.builder().connect_later().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let bare = self.bare.as_ref()?;
        let key = self.store.key_of(namespace, limit.clone(), key).ok()?;
        self.runtime.block_on(async {
            let Some(found) = bare.read(key).await else { return Some(Kept::Nothing) };
            if found.lease == 0 {
                return Some(Kept::ForEver);
            }
            let seconds = bare.seconds_left(found.lease).await;
            Some(Kept::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
        })
    }

    fn address(&self) -> Option<String> {
        Some(self.address.text())
    }

    fn connect(address: &str) -> Option<OnEtcd> {
        Some(OnEtcd::new(Address::of_text(address)?, ()))
    }

    fn break_store(&self) -> bool {
        let Some((member, outage)) = &self.broken else { return false };
        let mut member = member.lock().unwrap_or_else(PoisonError::into_inner);
        match outage {
            Outage::Kill | Outage::KillAndForget => member.kill(),
            Outage::Freeze => member.freeze(),
        }
        true
    }

    fn mend_store(&self) {
        let Some((member, outage)) = &self.broken else { return };
        let mut member = member.lock().unwrap_or_else(PoisonError::into_inner);
        match outage {
            Outage::Kill => member.restart(),
            Outage::KillAndForget => member.restart_empty(),
            Outage::Freeze => member.thaw(),
        }
    }
}

// This member is shared among the rules, so it is never broken: the rules of outages have their own
// members.
conformance!(one_member, OnEtcd::one_member, lifetime, processes);

/// The rules for which another set-up may make a difference.
macro_rules! some_rules {
    ($name:ident, $make:expr; $($module:ident::$rule:ident),+ $(,)?) => {
        mod $name {
            use super::*;

            $(#[test]
            fn $rule() {
                rules::$module::$rule(&($make)());
            })+
        }
    };
}

some_rules! { three_members, OnEtcd::three_members;
    sequences::random_sequences_through_limiters_equal_the_definition,
    together::all_keys_are_charged_or_none,
    together::many_keys_are_hit_independently,
    concurrent::concurrent_callers_admit_exactly_the_limit,
    concurrent::fresh_keys_admit_exactly_one,
    concurrent::concurrent_groups_never_pass_a_limit,
}

#[test]
fn several_processes_on_three_members_admit_exactly_the_limit() {
    const TEST: &str =
        concat!(module_path!(), "::several_processes_on_three_members_admit_exactly_the_limit");
    rules::processes::several_processes_admit_exactly_the_limit(TEST, OnEtcd::three_members);
}

some_rules! { tls_with_client_certificate, OnEtcd::over_tls;
    vectors::vectors_are_answered_as_written,
    keys::long_keys_differ_in_any_byte,
    concurrent::concurrent_callers_admit_exactly_the_limit,
    denials::giving_back_ends_a_remembered_denial,
}

some_rules! { login, OnEtcd::with_a_login;
    vectors::vectors_are_answered_as_written,
    together::many_keys_are_hit_independently,
    concurrent::concurrent_callers_admit_exactly_the_limit,
    denials::giving_back_ends_a_remembered_denial,
}

some_rules! { killed, || OnEtcd::broken_by(Outage::Kill);
    outage::a_broken_store_gives_errors_in_time,
    outage::without_the_store_the_rule_of_the_limiter_holds,
    outage::a_mended_store_answers_again,
    outage::an_unavailable_call_was_not_executed,
}

some_rules! { killed_and_emptied, || OnEtcd::broken_by(Outage::KillAndForget);
    outage::a_mended_store_answers_again,
}

some_rules! { frozen, || OnEtcd::broken_by(Outage::Freeze);
    outage::a_broken_store_gives_errors_in_time,
    outage::without_the_store_the_rule_of_the_limiter_holds,
    outage::a_mended_store_answers_again,
    outage::an_unavailable_call_was_not_executed,
}
