//! The suite of every store, on etcd in all the ways it can be reached.

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

/// How a process reaches a store: the address, and where the certificates are.
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
    // Before the runtime, on which its connections live.
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
        let mut subject = OnEtcd::new(Address { url, certificates: None }, member);
        let _on_it = subject.runtime.enter();
        subject.bare = Some(Bare::to(port));
        drop(_on_it);
        subject
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

    /// On a member of its own, to be broken.
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

// Shared among the rules, so nothing is broken there: the rules of outages have members of their own.
conformance!(one_member, OnEtcd::one_member, lifetime, processes);
conformance!(three_members, OnEtcd::three_members, processes);
conformance!(tls_with_client_certificate, OnEtcd::over_tls, processes);
conformance!(login, OnEtcd::with_a_login, processes);

macro_rules! outages {
    ($($name:ident: $outage:expr;)+) => {
        $(mod $name {
            use super::*;

            #[test]
            fn a_broken_store_gives_errors_in_time() {
                rules::outage::a_broken_store_gives_errors_in_time(&OnEtcd::broken_by($outage));
            }

            #[test]
            fn without_the_store_the_rule_of_the_limiter_holds() {
                let subject = OnEtcd::broken_by($outage);
                rules::outage::without_the_store_the_rule_of_the_limiter_holds(&subject);
            }

            #[test]
            fn a_mended_store_answers_again() {
                rules::outage::a_mended_store_answers_again(&OnEtcd::broken_by($outage));
            }

            #[test]
            fn an_unavailable_call_was_not_executed() {
                rules::outage::an_unavailable_call_was_not_executed(&OnEtcd::broken_by($outage));
            }
        })+
    };
}

outages! {
    killed: Outage::Kill;
    killed_and_emptied: Outage::KillAndForget;
    frozen: Outage::Freeze;
}
