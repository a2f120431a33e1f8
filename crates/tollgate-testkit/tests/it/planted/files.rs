//! A store that several processes share: one file for each key, with a lock file. It supports two
//! algorithms, which is enough to count.

use std::convert::Infallible;
use std::fs;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::algorithm::{
    Act, AnyMachine, AnyState, Op, fixed_window_per_key, gcra, hit_together,
};
use tollgate::shared::{Ask, Guard, HitItem, SharedStore};
use tollgate::{Algorithm, Error, KeyRef, Limit, Outcome, Timestamp};
use tollgate_testkit::Subject;

use super::timer::Timer;

/// `SHARED`: processes wait for each other. Otherwise each counts alone and only knows the keys of
/// the others.
#[derive(Clone, Debug)]
pub(crate) struct Files<const SHARED: bool> {
    folder: PathBuf,
    guard: Arc<Guard>,
}

#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    name: String,
    machine: AnyMachine,
}

impl<const SHARED: bool> Files<SHARED> {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-testkit-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        Files::at(folder)
    }

    /// For the test that created the files, at its end.
    pub(crate) fn remove(&self) {
        fs::remove_dir_all(&self.folder).expect("the folder that was made");
    }

    fn at(folder: PathBuf) -> Self {
        Files { folder, guard: Arc::new(Guard::builder().remember_denials(0).build_on(Timer)) }
    }

    fn file(&self, prepared: &Prepared, key: KeyRef<'_>) -> PathBuf {
        let own = if SHARED { 0 } else { std::process::id() };
        let text = format!("{own} {} {:?} {:?}", prepared.name, key.form(), key.bytes());
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        // File names are short, so only the ends of long keys are used. They differ.
        self.folder.join(&hex[hex.len().saturating_sub(200)..])
    }

    fn act(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp, act: Act) -> Outcome {
        let (path, machine) = (self.file(prepared, key), &prepared.machine);
        let mut state = read(&path, machine);
        let decision = machine.act(&mut state, now, act);
        if !matches!(act, Act::Op(Op::Peek(_))) {
            write(&path, state.as_ref());
        }
        decision
    }

    fn locked<T>(&self, f: impl FnOnce() -> T) -> T {
        let lock = self.folder.join("lock");
        while fs::OpenOptions::new().write(true).create_new(true).open(&lock).is_err() {
            std::thread::yield_now();
        }
        let result = f();
        fs::remove_file(&lock).expect("the lock that was taken");
        result
    }
}

fn read(path: &Path, machine: &AnyMachine) -> Option<AnyState> {
    let text = fs::read_to_string(path).ok()?;
    let (time, number) = text.split_once(' ')?;
    let (time, number) = (Timestamp::from_micros(time.parse().ok()?), number.parse().ok()?);
    Some(match machine {
        AnyMachine::Gcra(_) => AnyState::Gcra(gcra::GcraState { tat: time, part: number }),
        _ => AnyState::FixedWindowPerKey(fixed_window_per_key::FixedWindowPerKeyState {
            start: time,
            count: number,
        }),
    })
}

fn write(path: &Path, state: Option<&AnyState>) {
    let (time, number) = match state {
        Some(AnyState::Gcra(state)) => (state.tat, state.part),
        Some(AnyState::FixedWindowPerKey(state)) => (state.start, state.count),
        _ => return drop(fs::remove_file(path)),
    };
    fs::write(path, format!("{} {number}", time.as_micros())).expect("a file that can be written");
}

impl<const SHARED: bool> SharedStore for Files<SHARED> {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        if !holds(limit) {
            return Err(Error::unsupported(limit, "two algorithms are enough to count"));
        }
        let name = format!("{namespace} {}", limit.identity());
        Ok(Prepared { name, machine: AnyMachine::new(limit) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<SHARED> {
        let now = at.unwrap_or(Timestamp::EPOCH);
        let one = |ask: &Ask<'_, Prepared>| self.act(ask.prepared, ask.key, now, Act::Op(ask.op));
        ready(Ok(self.locked(|| asks.iter().map(one).collect())))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<SHARED> {
        let now = at.unwrap_or(Timestamp::EPOCH);
        ready(Ok(self.locked(|| {
            let Ok(outcomes): Result<_, Infallible> = hit_together(
                hits.iter().map(|hit| hit.prepared.machine.part(hit.cost)),
                |hit, act| {
                    let HitItem { prepared, key, .. } = hits[hit];
                    Ok(self.act(prepared, key, now, act))
                },
            );
            outcomes
        })))
    }

    fn clear(&self, _: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<SHARED> {
        ready(Ok(()))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<SHARED> {
        ready(Ok(()))
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
}

fn holds(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::Gcra | Algorithm::FixedWindowPerKey)
}

impl<const SHARED: bool> Subject for Files<SHARED> {
    type Store = Self;

    fn store(&self) -> Self {
        self.clone()
    }

    fn refuses(&self, limit: &Limit) -> bool {
        !holds(limit)
    }

    fn address(&self) -> Option<String> {
        Some(self.folder.display().to_string())
    }

    fn connect(address: &str) -> Option<Self> {
        Some(Files::at(address.into()))
    }
}
