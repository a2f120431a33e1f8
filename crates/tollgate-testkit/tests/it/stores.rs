//! The in-process stores hold every rule.

use tollgate::Memory;
use tollgate::shared::InProcess;
use tollgate_testkit::{OneStore, conformance};

conformance!(memory, || OneStore::new(InProcess::new(Memory::new())));
