//! Third-party clients.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::server::Server;

/// The output of a program.
fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// Whether a program is installed. If not, prints that the test is skipped, or fails where tests
/// may not be skipped.
fn is_there(program: &str, package: &str) -> bool {
    let mut look = Command::new(program);
    look.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if look.status().is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("TOLLGATE_NO_SKIP").is_none(),
        "{program} is not installed, and skipping is not allowed here"
    );
    eprintln!(
        "SKIPPED: this test needs {program} (Debian package {package}); `cargo xtask test` installs it"
    );
    false
}

/// A directory for downloads, kept between runs.
fn kept(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn redis_cli_can_be_used() {
    if !is_there("redis-cli", "redis-tools") {
        return;
    }
    let server = Server::start(&[]);
    let port = server.resp.port().to_string();
    let cli =
        |arguments: &[&str]| said(Command::new("redis-cli").args(["-p", &port]).args(arguments));
    assert_eq!(cli(&["CL.THROTTLE", "user", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    assert!(
        cli(&["-3", "TG.HIT", "5/minute", "user"])
            .starts_with("verdict allowed\nallowed 1\nlimit 5\n")
    );
    assert_eq!(cli(&["-u", &format!("redis://user:secret@127.0.0.1:{port}/0"), "PING"]), "PONG\n");
    // The pipe mode of redis-cli reads all answers and compares their number.
    let lines = "CL.THROTTLE pipe 999 1 60\n".repeat(500);
    let script = format!("printf '%s' \"$LINES\" | redis-cli -p {port} --pipe");
    let piped = said(Command::new("sh").args(["-c", &script]).env("LINES", lines));
    assert!(piped.contains("errors: 0, replies: 500"), "{piped}");
}

const PYTHON: &str = r#"
import sys, redis
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, client_name="python", username="me", password="secret")
    assert r.ping()
    assert r.client_getname() in ("python", b"python")
    assert r.info()["loading"] == 0
    key = bytes([0, 255, protocol]) + b"\r\n"
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    hit = r.execute_command("TG.HIT", "5/hour", key)
    if protocol == 3:
        assert hit[b"remaining"] == 4, hit
    else:
        assert dict(zip(hit[::2], hit[1::2]))[b"remaining"] == 4, hit
    with r.pipeline(transaction=False) as pipe:
        for _ in range(100):
            pipe.execute_command("CL.THROTTLE", b"pipe%d" % protocol, 49, 1, 86400)
        assert sum(answer[0] == 0 for answer in pipe.execute()) == 50
    with r.pipeline() as pipe:
        for _ in range(3):
            pipe.execute_command("TG.ALLOW", "2/day", b"multi%d" % protocol)
        assert pipe.execute() == [1, 1, 0]
    with r.pipeline() as pipe:
        pipe.execute_command("TG.ALLOW", "2/day", b"free%d" % protocol)
        pipe.execute_command("GET", "key")
        try:
            pipe.execute()
            raise SystemExit("no error")
        except redis.ResponseError:
            pass
    assert r.execute_command("TG.USAGE", "2/day", b"free%d" % protocol) == 0
    try:
        r.execute_command("TG.HIT", "nothing", "key")
        raise SystemExit("no error")
    except redis.ResponseError as error:
        assert str(error).startswith("UNKNOWN"), error
    r.close()
print("fine")
"#;

/// The test runs redis-py in its own virtual environment.
#[test]
fn redis_py_can_be_used() {
    static INSTALL: Mutex<()> = Mutex::new(());
    if !is_there("python3", "python3-venv") {
        return;
    }
    let venv = kept("redis-py");
    let python = venv.join("bin/python");
    {
        let _one = INSTALL.lock().unwrap();
        let mut look = Command::new(&python);
        look.args(["-c", "import redis"]).stderr(Stdio::null());
        if !look.status().is_ok_and(|status| status.success()) {
            said(Command::new("python3").args(["-m", "venv"]).arg(&venv));
            said(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "redis>=5,<8"]));
        }
    }
    let server = Server::start(&[]);
    let port = server.resp.port().to_string();
    assert_eq!(said(Command::new(python).args(["-c", PYTHON, &port])), "fine\n");
}

const NODE: &str = r#"
const Redis = require("ioredis");
const assert = require("assert");
(async () => {
  const redis = new Redis({ port: +process.argv[2], connectionName: "node", username: "me", password: "secret", maxRetriesPerRequest: 0 });
  assert.equal(await redis.ping(), "PONG");
  assert.equal(await redis.client("GETNAME"), "node");
  assert.deepEqual(await redis.call("CL.THROTTLE", "node", 15, 30, 60), [0, 16, 15, -1, 2]);
  const binary = Buffer.from([0, 255, 13, 10]);
  assert.deepEqual(await redis.call("CL.THROTTLE", binary, 15, 30, 60), [0, 16, 15, -1, 2]);
  const pipeline = redis.pipeline();
  for (let i = 0; i < 100; i++) pipeline.call("CL.THROTTLE", "node pipe", 49, 1, 86400);
  const answers = await pipeline.exec();
  assert.equal(answers.filter(([error, answer]) => !error && answer[0] === 0).length, 50);
  const multi = redis.multi();
  for (let i = 0; i < 3; i++) multi.call("TG.ALLOW", "2/day", "multi");
  assert.deepEqual(await multi.exec(), [[null, 1], [null, 1], [null, 0]]);
  await assert.rejects(redis.call("TG.HIT", "nothing", "key"), /UNKNOWN/);
  await redis.quit();
  console.log("fine");
})().catch((error) => { console.error(error); process.exit(1); });
"#;

#[test]
fn ioredis_can_be_used() {
    if !is_there("node", "nodejs") || !is_there("npm", "npm") {
        return;
    }
    let dir = kept("ioredis");
    if !dir.join("node_modules/ioredis/package.json").exists() {
        let arguments = ["install", "--no-audit", "--no-fund", "--silent", "--prefix"];
        said(Command::new("npm").args(arguments).arg(&dir).arg("ioredis@5"));
    }
    let script = dir.join("check.js");
    std::fs::write(&script, NODE).unwrap();
    let server = Server::start(&[]);
    let port = server.resp.port().to_string();
    assert_eq!(said(Command::new("node").arg(script).arg(&port)), "fine\n");
}
