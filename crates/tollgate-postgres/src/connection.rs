//! One connection: opened, checked, used.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};
use tollgate::Error;

use crate::failure;
use crate::schema::{self, Tables, VERSION};
use crate::target::Target;

/// Everything that is needed to connect.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) target: Target,
    pub(crate) schema: String,
    pub(crate) tables: Tables,
    /// Whether to create a missing schema and missing tables.
    pub(crate) create: bool,
    pub(crate) connect_timeout: Duration,
}

/// A handle: clones share the connection, which is closed with the last of them.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Arc<Client>,
    /// The sender is dropped when the connection has ended.
    alive: watch::Receiver<()>,
    _task: Arc<Task>,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// Connects to a database that has the tables, or returns in time why it cannot.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        let late = |_| {
            let name = self.target.name();
            Error::unavailable(format!("{name}: not connected within {:?}", self.connect_timeout))
        };
        tokio::time::timeout(self.connect_timeout, self.open()).await.map_err(late)?
    }

    async fn open(&self) -> Result<Connection, Error> {
        let failed = |error: tokio_postgres::Error| failure::of_connect(self.target.name(), &error);
        let Target { config, tls, .. } = &self.target;
        let (client, driver) = config.connect(tls.clone()).await.map_err(failed)?;
        let (life, alive) = watch::channel(());
        let driver = async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection to PostgreSQL ended");
            }
            drop(life);
        };
        let task = Arc::new(Task(tokio::spawn(driver).abort_handle()));
        let connection = Connection { client: Arc::new(client), alive, _task: task };
        self.check(&connection).await?;
        Ok(connection)
    }

    /// Checks that the server writes and that it has the tables, in the right version. Creates them
    /// if it may.
    async fn check(&self, connection: &Connection) -> Result<(), Error> {
        let name = self.target.name();
        let failed = |error: &tokio_postgres::Error| failure::of_connect(name, error);
        let read_only = connection.value("SELECT current_setting('transaction_read_only')").await;
        if read_only.map_err(|error| failed(&error))?.as_deref() == Some("on") {
            return Err(Error::unavailable(format!(
                "{name}: the server does not write, as a standby"
            )));
        }
        let version = format!("SELECT version FROM {}.meta", self.schema);
        let mut found = connection.value(&version).await;
        let missing = |error: &tokio_postgres::Error| error.code().is_some_and(failure::is_missing);
        if self.create && found.as_ref().is_err_and(missing) {
            tracing::info!(schema = self.schema, "creating the tables");
            let made = connection.value(&schema::schema(&self.schema, self.tables)?).await;
            found = connection.value(&version).await;
            // Another process may have created them first. If not, this is why they are missing.
            if let (Err(error), true) = (&made, found.is_err()) {
                return Err(failed(error));
            }
        }
        let schema = &self.schema;
        let found = found.map_err(|error| match missing(&error) {
            true => Error::store(
                format!("{name}: schema {schema} is missing; `schema` of this crate has the SQL that makes it"),
                false,
            ),
            false => failed(&error),
        })?;
        let found = found.unwrap_or_default();
        if found == VERSION.to_string() {
            return self.restore_tables(connection).await;
        }
        let what =
            format!("schema {schema} has version {found}, this crate knows version {VERSION}");
        Err(Error::store(format!("{name}: {what}"), false))
    }

    /// Creates tables again that were dropped, if it may. Their counts are lost.
    async fn restore_tables(&self, connection: &Connection) -> Result<(), Error> {
        let (name, schema) = (self.target.name(), &self.schema);
        let failed = |error: tokio_postgres::Error| failure::of_connect(name, &error);
        let there = |table| format!("to_regclass('{schema}.{table}') IS NOT NULL");
        let all = format!("SELECT {} AND {}", there("counters"), there("log"));
        if connection.value(&all).await.map_err(failed)?.as_deref() == Some("t") {
            return Ok(());
        }
        if !self.create {
            return Err(Error::store(
                format!(
                    "{name}: schema {schema} lacks a table; `schema` of this crate has the SQL that makes it"
                ),
                false,
            ));
        }
        tracing::error!(schema, "a table was dropped: creating it again, its counts are lost");
        let made = connection.value(&schema::missing_tables(schema, self.tables)).await;
        // Another process may have created them first. If not, this is why they are missing.
        let found = connection.value(&all).await.map_err(failed)?;
        match made {
            Err(error) if found.as_deref() != Some("t") => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

impl Connection {
    /// Waits until it has ended, even while it is not used.
    pub(crate) async fn ended(&self) {
        let mut alive = self.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// All rows that a string of statements returns, which is one transaction.
    pub(crate) async fn rows(
        &self,
        sql: &str,
    ) -> Result<Vec<SimpleQueryRow>, tokio_postgres::Error> {
        let messages = self.client.simple_query(sql).await?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// The first value of the first row.
    async fn value(&self, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
        Ok(first_value(&self.rows(sql).await?))
    }
}

pub(crate) fn first_value(rows: &[SimpleQueryRow]) -> Option<String> {
    rows.first().and_then(|row| row.get(0)).map(str::to_owned)
}

/// Sets the isolation level and the timeouts of a statement, so that it sees what others have
/// committed and ends when its callers have left. The settings end with the transaction, so that a
/// pooler may run the next one in another session.
pub(crate) fn limited(timeout: Duration, lock_timeout: Duration, statement: &str) -> String {
    let millis = |span: Duration| span.as_millis().max(1);
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;SET LOCAL statement_timeout={};SET LOCAL lock_timeout={};{statement}",
        millis(timeout),
        millis(lock_timeout)
    )
}
