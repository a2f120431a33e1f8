//! Spare pages in the file, for a full disk.
//!
//! redb never changes a page in place. Even a commit that only changes known keys needs free pages,
//! and when there are none the file has to grow. So the file holds a table without meaning. When
//! the file cannot grow, that table is deleted, and its pages are enough for commits of known keys:
//! each such commit frees as many pages as it takes.

use redb::{ReadableDatabase, ReadableTableMetadata, TableDefinition, WriteTransaction};

const SPARE: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("tollgate spare");

/// Each value has its own page, so that the pages need not be adjacent.
const PAGES: u32 = 160;
const VALUE: &[u8] = &[0xff; 3_000];

/// The number of changes that fit into the spare pages: each may need a page of records and some
/// above it.
pub(crate) const CHANGES: usize = 32;

pub(crate) fn lay_in(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(SPARE)?;
    for page in 0..PAGES {
        table.insert(page, VALUE)?;
    }
    Ok(())
}

pub(crate) fn release(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.delete_table(SPARE)?;
    Ok(())
}

pub(crate) fn is_laid_in(database: &redb::Database) -> bool {
    let len =
        || -> Result<u64, redb::Error> { Ok(database.begin_read()?.open_table(SPARE)?.len()?) };
    len().is_ok_and(|len| len == u64::from(PAGES))
}
