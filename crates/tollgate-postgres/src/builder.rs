//! How to reach PostgreSQL, where the tables are, and what to do when it does not answer.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Error, SystemClock};
use tollgate_remote::{Settings, Tokio, reach};

use crate::connection::Server;
use crate::schema::{self, Tables};
use crate::target::Target;
use crate::{Postgres, clean, worker::Worker};

/// The settings of a [`Postgres`].
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::shared::Guard;
/// use tollgate_postgres::{Postgres, Tables};
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = Postgres::builder("postgres://user:secret@db.example.org/shop")
///     .schema("limits")
///     .tables(Tables::Logged)
///     .guard(Guard::builder().deadline(Duration::from_millis(20)))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct PostgresBuilder {
    settings: Settings,
    schema: String,
    tables: Tables,
    create: bool,
    clean_period: Duration,
    connections: usize,
    clock: Arc<dyn Clock>,
}

/// Omits the address, which may contain a password.
impl std::fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresBuilder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PostgresBuilder {
    pub(crate) fn new(url: String) -> PostgresBuilder {
        PostgresBuilder {
            settings: Settings::new(url),
            schema: "tollgate".into(),
            tables: Tables::default(),
            create: true,
            clean_period: Duration::from_secs(1),
            connections: 2,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The schema that has the tables and functions. Default `tollgate`. Lower case letters, digits
    /// and underscores.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Whether new tables survive a crash. Default [`Tables::Unlogged`]. Existing tables stay as
    /// they are.
    pub fn tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// Whether to create a missing schema, with tables and functions. Default true. If false, your
    /// migrations must: see [`schema`](crate::schema()).
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How often a slice of the rows is searched for states that have run out, by all processes
    /// together. Default 1 second; zero is never: then call [`Postgres::clean`].
    pub fn clean_period(mut self, period: Duration) -> Self {
        self.clean_period = period;
        self
    }

    /// The number of connections, at least one. Default 2: two processes of the server work at the
    /// same time. Each key has its connection, and calls that wait for a connection go in one
    /// statement, so more than a few connections only make batches smaller.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// The clock of this machine. It says which calendar windows are sent to the server, which
    /// decides by its own time.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    tollgate_remote::settings_methods!(certificates);

    /// Connects and returns the store.
    ///
    /// # Errors
    /// When the address or the name of the schema is wrong, the server cannot be reached, or it has
    /// no tables and none can be made.
    pub async fn connect(self) -> Result<Postgres, Error> {
        let connect_timeout = self.settings.connect_timeout;
        let store = self.connect_later()?;
        reach(connect_timeout, store.reachable()).await?;
        Ok(store)
    }

    /// Returns the store without waiting. It connects with the first call or the first cleaning.
    /// For services that must start without their database. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the address or the name of the schema is wrong, or there is no runtime.
    pub fn connect_later(self) -> Result<Postgres, Error> {
        schema::check_name(&self.schema)?;
        let guard = self.settings.named_guard();
        let Settings { url, connect_timeout, certificates, .. } = self.settings;
        let target = Target::parse(&url, &certificates, connect_timeout)?;
        let runtime = Tokio::current("PostgreSQL")?;
        let server = Server {
            target,
            schema: self.schema.clone(),
            tables: self.tables,
            create: self.create,
            connect_timeout,
        };
        let guard = guard.build_on(runtime.clone());
        let start = |_| Worker::start(server.clone(), guard.deadline(), &runtime);
        let workers: Vec<Worker> = (0..self.connections).map(start).collect();
        if !self.clean_period.is_zero() {
            let clean = clean::keep_clean(
                workers[0].downgrade(),
                self.schema.clone(),
                self.clean_period,
                connect_timeout,
            );
            runtime.spawn(clean);
        }
        Ok(Postgres::new(self.schema, workers, guard, connect_timeout, self.tables, self.clock))
    }
}
