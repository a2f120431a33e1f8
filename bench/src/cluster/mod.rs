//! Many nodes: exact, leased and replicated limits compared with the recipe that broadcasts every
//! hit, three nodes on one Redis.

mod broadcast;
mod fleet;
mod load;
mod report;
mod targets;

use crate::machine::Machine;
use crate::redis::server::Server;
use crate::{Outcome, progress};
use fleet::{Fleet, Mode};
use load::{Shape, Tally};
use std::path::Path;
use std::time::Duration;

/// The size of the measurement.
pub(crate) struct Size {
    /// The duration of one turn. Windows last a second, and the first and the last one do not
    /// count.
    pub(crate) span: Duration,
}

/// The load: how many times the limit, and on which nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scene {
    /// Percent of the limit.
    pub(crate) load: u64,
    pub(crate) shape: Shape,
}

impl Scene {
    const ALL: [Scene; 6] = [
        Scene { load: 50, shape: Shape::Even },
        Scene { load: 100, shape: Shape::Even },
        Scene { load: 400, shape: Shape::Even },
        Scene { load: 50, shape: Shape::Skewed },
        Scene { load: 100, shape: Shape::Skewed },
        Scene { load: 400, shape: Shape::Skewed },
    ];

    fn title(self) -> &'static str {
        match (self.load, self.shape) {
            (50, Shape::Even) => "Half the limit, all nodes alike",
            (100, Shape::Even) => "The limit, all nodes alike",
            (_, Shape::Even) => "Four times the limit, all nodes alike",
            (50, Shape::Skewed) => "Half the limit, nearly all at one node",
            (100, Shape::Skewed) => "The limit, nearly all at one node",
            (_, Shape::Skewed) => "Four times the limit, nearly all at one node",
        }
    }
}

/// The results of one mode in one scene.
struct Row {
    mode: Mode,
    scene: Scene,
    /// Units per second.
    limit: u64,
    tally: Tally,
}

struct Results(Vec<Row>);

impl Results {
    fn of(&self, mode: Mode, scene: Scene) -> Option<&Row> {
        self.0.iter().find(|row| row.mode == mode && row.scene == scene)
    }
}

/// Measures everything and writes the results.
pub(crate) fn run(size: &Size, out: &Path) -> Outcome<()> {
    // One worker thread: all nodes share one core, the server has the other.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let redis = Server::start();
    let results = Results(runtime.block_on(measure(&redis, size))?);
    print!("{}", report::plain(&results));
    let mut machine = Machine::look(&["tokio", "redis"]);
    machine.versions.push(format!("redis-server {}", redis.version()?));
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("cluster.md"), report::markdown(&results, &machine))?;
    println!("written: cluster.md in {}", out.display());
    Ok(())
}

async fn measure(redis: &Server, size: &Size) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for shape in [Shape::Even, Shape::Skewed] {
        // The decisions of leased nodes per second if none is denied: this is the load of this
        // shape.
        let fleet = Fleet::start(Mode::Leased, redis, u64::from(u32::MAX)).await?;
        let offered = load::run(&fleet, shape, size.span).await?.rate();
        for scene in Scene::ALL.into_iter().filter(|scene| scene.shape == shape) {
            let limit = offered as u64 * 100 / scene.load;
            for mode in Mode::ALL {
                progress(&format!("cluster: {}: {}", scene.title().to_lowercase(), mode.title()));
                let fleet = Fleet::start(mode, redis, limit).await?;
                let tally = load::run(&fleet, shape, size.span).await?;
                rows.push(Row { mode, scene, limit, tally });
            }
        }
    }
    Ok(rows)
}
