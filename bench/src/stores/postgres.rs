//! PostgreSQL compared with an upsert that counts.

use super::contenders::{Contender, Hit, Kind, patient, tasks};
use super::scene::{CALLERS, Scene};
use super::servers::Servers;
use crate::Outcome;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};
use tollgate_postgres::Postgres;

pub(crate) const POSTGRES: &str = "PostgreSQL";

/// Unlogged, as tollgate's tables. So no commit waits for the disk.
const TABLE: &str = "CREATE UNLOGGED TABLE bare (key text PRIMARY KEY, hits bigint NOT NULL)";
const UPSERT: &str = "INSERT INTO bare VALUES ($1, 1) \
    ON CONFLICT (key) DO UPDATE SET hits = bare.hits + 1 RETURNING hits";

pub(crate) fn contenders(servers: &Servers, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let url = servers.postgres.url();
    let store = runtime.block_on(Postgres::builder(&*url).guard(patient()).connect())?;
    runtime.block_on(async { Outcome::Ok(connect(&url).await?.batch_execute(TABLE).await?) })?;
    let one = runtime.block_on(Upsert::on(&url, 1))?;
    let many = runtime.block_on(Upsert::on(&url, CALLERS))?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let mut add = |title, kind, work| {
            all.push(Contender { store: POSTGRES, title, kind, scene, work });
        };
        let alone = Scene { callers: 1, ..scene };
        add("upsert, one by one", Kind::Bare, tasks(alone, one.clone()));
        if scene.callers > 1 {
            add("upsert, 64 connections", Kind::Other, tasks(scene, many.clone()));
            add("upsert, one pipelined connection", Kind::Other, tasks(scene, one.clone()));
        }
        add("tollgate", Kind::Ours, tasks(scene, store.limiter(scene.limit())?));
    }
    Ok(all)
}

/// Calls one by one on each of its connections; a caller always uses the same connection.
#[derive(Clone)]
struct Upsert(Arc<[(Client, Statement)]>);

impl Upsert {
    async fn on(url: &str, connections: usize) -> Outcome<Upsert> {
        let mut all = Vec::new();
        for _ in 0..connections {
            let client = connect(url).await?;
            let statement = client.prepare(UPSERT).await?;
            all.push((client, statement));
        }
        Ok(Upsert(all.into()))
    }
}

impl Hit for Upsert {
    async fn hit(&self, number: usize, key: &str) -> Outcome<bool> {
        let (client, statement) = &self.0[number % self.0.len()];
        let hits: i64 = client.query_one(statement, &[&key]).await?.try_get(0)?;
        Ok(hits > 0)
    }
}

async fn connect(url: &str) -> Outcome<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
