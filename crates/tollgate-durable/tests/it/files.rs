//! Files that cannot be used cause an error that says why, and are not changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate::{Error, ErrorKind};
use tollgate_durable::Durable;
use tollgate_testkit::block_on;
use tollgate_testservers::Directory;

fn open(path: &Path) -> Result<Durable, Error> {
    Durable::open(path.display().to_string())
}

/// A file with a hundred used keys, closed.
fn used(directory: &Directory) -> PathBuf {
    let path = directory.path().join("limits");
    let store = open(&path).unwrap();
    let limiter = store.limiter("5/day").unwrap();
    for key in 0..100 {
        let _ = block_on(limiter.hit(key)).unwrap();
    }
    store.close().unwrap();
    path
}

/// The file is rejected with these words, and not changed.
fn is_refused(path: &Path, words: &str) {
    let before = std::fs::read(path).ok();
    let error = open(path).expect_err("a file that cannot be used");
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert!(std::fs::read(path).ok() == before, "{error}, and the file was changed");
}

#[test]
fn a_file_of_another_program_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("notes.txt");
    for content in [&b"hello"[..], &[0; 4096], &[b'x'; 100_000]] {
        std::fs::write(&path, content).unwrap();
        is_refused(&path, "not a file of tollgate");
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("other");
    let database = redb::Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("accounts");
    write.open_table(table).unwrap().insert(1, 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = open(&path).expect_err("a database of something else");
    assert!(error.to_string().contains("it has a table \"accounts\""), "{error}");
    let database = redb::Database::open(&path).unwrap();
    let read = redb::ReadableDatabase::begin_read(&database).unwrap();
    assert_eq!(
        redb::ReadableTable::get(&read.open_table(table).unwrap(), 1).unwrap().unwrap().value(),
        2
    );
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let directory = Directory::new();
    let path = used(&directory);
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let about: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("tollgate");
    write.open_table(about).unwrap().insert("format", 3).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = open(&path).expect_err("a file of a newer version");
    let words = "has format 3, and this version of tollgate knows 2: it was written by a newer one";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_torn_file_is_refused() {
    let directory = Directory::new();
    let path = used(&directory);
    let whole = std::fs::read(&path).unwrap();
    for length in [1, 100, 4096, 5000, whole.len() / 2] {
        std::fs::write(&path, &whole[..length]).unwrap();
        is_refused(&path, "torn");
    }
    std::fs::write(&path, &whole).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(block_on(store.limiter("5/day").unwrap().usage(7)).unwrap(), 1);
}

#[test]
fn one_store_owns_a_file() {
    let directory = Directory::new();
    let path = used(&directory);
    let store = open(&path).unwrap();
    let error = open(&path).expect_err("a file that is in use");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("is in use"), "{error}");
    // Another process is rejected too.
    let test = "files::a_process_that_wants_a_file";
    let tried = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(WANTED, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(said.contains("is in use"), "{said}");
    store.close().unwrap();
    assert!(open(&path).is_ok());
}

const WANTED: &str = "TOLLGATE_DURABLE_WANTED";

/// Runs in the process that [`one_store_owns_a_file`] starts; otherwise it does nothing.
#[test]
fn a_process_that_wants_a_file() {
    if let Some(path) = std::env::var_os(WANTED) {
        println!("{:?}", open(Path::new(&path)).map(|_| ()));
    }
}

#[test]
fn a_missing_directory_is_named() {
    let directory = Directory::new();
    is_refused(&directory.path().join("nowhere/limits"), "the directory does not exist");
}

#[test]
fn a_directory_is_refused() {
    let directory = Directory::new();
    let error = open(directory.path()).expect_err("a directory");
    assert!(error.to_string().contains(&directory.path().display().to_string()), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    let directory = Directory::new();
    let path = used(&directory);
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    // The superuser may write everything.
    if std::fs::OpenOptions::new().write(true).open(&path).is_err() {
        is_refused(&path, "must be writable");
    }
    if Path::new("/proc/version").exists() {
        is_refused(Path::new("/proc/version"), "/proc/version");
    }
}

#[test]
fn an_empty_file_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("limits");
    std::fs::write(&path, b"").unwrap();
    is_refused(&path, "it is empty, which a file of tollgate never is");
}
