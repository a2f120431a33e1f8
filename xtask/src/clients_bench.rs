//! `cargo xtask bench python` and `bench node`: the clients beside other limiters of their languages.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::clients::{Python, copy_into, fresh_directory, npm, pack};
use crate::command::{cargo, run};
use crate::needs;
use crate::outcome::{Outcome, because};
use crate::server::{Servers, free_port, listening};
use crate::workspace;

/// Writes `bench/results/python.md`.
pub(crate) fn python() -> Outcome {
    needs::install_for("bench python")?;
    let scripts = workspace::root().join("bench/python");
    let fresh = Python::fresh("bench")?;
    fresh.pip(&["-r"], scripts.join("requirements.txt"))?;
    let wheel = fresh.wheel("release")?;
    fresh.pip(&["--no-deps"], wheel)?;
    let servers = Servers::start()?;
    let mut bench = fresh.tool("python");
    bench.arg(scripts.join("bench.py")).arg(redis_url(&servers)?);
    write("python", "Python", &mut bench)
}

/// Writes `bench/results/node.md`.
pub(crate) fn node() -> Outcome {
    needs::install_for("bench node")?;
    run(&mut cargo(["build", "--release", "--package", "tollgate-server"]))?;
    let fresh = fresh_directory("node-bench")?;
    let packed = pack(&fresh)?;
    for file in workspace::entries(&workspace::root().join("bench/node")) {
        copy_into(&file, &fresh)?;
    }
    run(npm(&fresh).args(["install", "--no-save", "--no-progress"]).arg(packed))?;
    let servers = Servers::start()?;
    let redis = redis_url(&servers)?;
    let server = Tollgate::start(&redis)?;
    let mut bench = Command::new("node");
    bench.arg("bench.js").current_dir(&fresh);
    bench.args([&redis, &format!("http://127.0.0.1:{}", server.http), &server.resp.to_string()]);
    write("node", "Node", &mut bench)
}

/// A server on the Redis that the contenders share.
struct Tollgate {
    process: Child,
    http: u16,
    resp: u16,
}

impl Tollgate {
    fn start(redis: &str) -> Outcome<Tollgate> {
        let (http, resp) = (free_port()?, free_port()?);
        let mut command = Command::new(workspace::target_dir("release").join("tollgate"));
        command.args(["serve", "--store", redis, "--grpc", "off", "--admin", "off"]);
        command.args(["--http", &format!("127.0.0.1:{http}")]);
        command.args(["--resp", &format!("127.0.0.1:{resp}")]);
        match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(mut process) => {
                listening(&mut process, resp, "tollgate")?;
                Ok(Tollgate { process, http, resp })
            }
            Err(error) => because(format!("tollgate did not start: {error}")),
        }
    }
}

impl Drop for Tollgate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn redis_url(servers: &Servers) -> Outcome<String> {
    let url = servers.variables().iter().find(|(name, _)| *name == "REDIS_URL");
    url.map_or_else(|| because("there is no Redis"), |(_, url)| Ok(url.clone()))
}

/// Runs a benchmark that prints tables, and keeps them.
fn write(name: &str, language: &str, bench: &mut Command) -> Outcome {
    let tables = match bench.stderr(Stdio::inherit()).output() {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        Ok(done) => return because(format!("bench {name} ended with {}", done.status)),
        Err(error) => return because(format!("bench {name} did not start: {error}")),
    };
    print!("{tables}");
    let file = workspace::root().join("bench/results").join(format!("{name}.md"));
    let text = format!(
        "# {language}\n\n`cargo xtask bench {name}`, all contenders in one run, in turns. Ratios hold on a noisy \
         machine; single figures do not.\n\n{}\n",
        tables.trim_end()
    );
    written(&file, &text)
}

fn written(file: &Path, text: &str) -> Outcome {
    std::fs::write(file, text)
        .map_or_else(|error| because(format!("{}: {error}", file.display())), Ok)
}
