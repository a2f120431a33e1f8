//! `tollgate top` against the real server: on a terminal of its own, as a table and as JSON.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use tollgate_server::auth::Hash;
use tollgate_testservers::{Certificates, eventually, free_port};

use crate::server::Server;

const RULES: &str = "[limits]\napi = '5/hour'\nother = '1000/hour'\n";

/// The token that may only read.
const READ: &str = "token-that-reads";

fn with_token() -> Server {
    let hash = Hash::from_token(READ.as_bytes());
    let tokens = format!("[auth.admin_tokens]\nwatcher = {{ hash = '{hash}', scope = 'read' }}\n");
    Server::with(&(RULES.to_owned() + &tokens), &["--log-level", "trace"], |_| {})
}

/// Hits a rule `times` times.
fn hit(server: &Server, rule: &str, key: &str, times: usize) {
    let url = format!("http://{}", server.http);
    for _ in 0..times {
        let hit = tollgate(&["hit", rule, key, "--server", &url]).output().unwrap();
        assert!(matches!(hit.status.code(), Some(0 | 1)), "{hit:?}");
    }
}

fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments);
    command
}

/// The exit code and the output of `tollgate top`, which is not on a terminal.
fn top(arguments: &[&str]) -> (i32, String, String) {
    let output = tollgate(&[&["top"], arguments].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// `tollgate top` on a terminal of 80 columns and 24 lines.
struct Screen {
    script: Child,
    keyboard: ChildStdin,
    /// The directory of the server.
    dir: PathBuf,
}

impl Screen {
    fn open(server: &Server) -> Screen {
        let program = env!("CARGO_BIN_EXE_tollgate");
        // The terminal shows afterwards how the program ended, and in which state it left it.
        let inner = format!(
            "stty cols 80 rows 24; sh -c 'echo $$ > {pid}; exec {program} top --server http://{admin}'; echo ended with $?; stty -a",
            pid = server.path("top.pid").display(),
            admin = server.admin,
        );
        let mut script = Command::new("script")
            .args(["--quiet", "--flush", "--command", &inner, "/dev/null"])
            .env("TOLLGATE_ADMIN_TOKEN", READ)
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(File::create(server.path("top.screen")).unwrap())
            .spawn()
            .unwrap();
        let keyboard = script.stdin.take().unwrap();
        Screen { script, keyboard, dir: server.process.dir().to_owned() }
    }

    /// Everything that was written to the terminal.
    fn text(&self) -> String {
        let bytes = std::fs::read(self.dir.join("top.screen")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines of the newest complete screen, without what a terminal obeys.
    fn lines(&self) -> Vec<String> {
        let text = self.text();
        // An update begins with ?2026h and ends with ?2026l.
        let end = text.rfind("\u{1b}[?2026l").unwrap_or(0);
        let begin = text[..end].rfind("\u{1b}[?2026h").unwrap_or(0);
        // Each line begins with a move of the cursor, which ends with `H`.
        let lines = text[begin..end].split("\u{1b}[").map(|part| {
            let (command, rest) =
                part.split_at(part.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1));
            (command.ends_with('H'), rest)
        });
        let mut all: Vec<String> = Vec::new();
        for (is_new, text) in lines {
            match all.last_mut() {
                Some(line) if !is_new => line.push_str(text),
                _ => all.push(text.to_owned()),
            }
        }
        all
    }

    /// Waits for a line that begins with `begin` and contains `has`.
    fn until(&self, begin: &str, has: &str) {
        let is_it = |line: &String| line.starts_with(begin) && line.contains(has);
        eventually(&format!("{begin} ... {has}"), || self.lines().iter().any(is_it));
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Sends a signal to the program.
    fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(self.dir.join("top.pid")).unwrap();
        let sent = Command::new("kill").args([&format!("-{name}"), pid.trim()]).status().unwrap();
        assert!(sent.success());
    }

    /// The program ended with this code, and the terminal is as it was.
    fn ended(mut self, code: i32) {
        eventually("the program ends", || self.script.try_wait().unwrap().is_some());
        let text = self.text();
        let left = text.rfind("\u{1b}[?1049l").expect("it leaves the other screen");
        assert!(text.rfind("\u{1b}[?1049h").unwrap() < left, "{text}");
        let after = &text[left..];
        assert!(after.contains(&format!("ended with {code}\r\n")), "{after}");
        assert!(after.contains(" icanon") && after.contains(" echo "), "{after}");
        assert!(text.contains("\u{1b}[?25h"), "the cursor is shown again: {text}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // `script` hangs up the terminal, which ends the program.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn the_screen_follows_the_server_and_obeys_the_keyboard() {
    let server = with_token();
    hit(&server, "api", "secret-customer", 3);
    let mut screen = Screen::open(&server);
    screen.until("RULE", "HITS*");
    screen.until("api ", " 3 ");
    screen.until("secret-customer ", " 3 ");
    screen.until("q quit", "h hits");
    assert_eq!(screen.lines().len(), 25, "24 lines after what begins an update");
    // The figures move without a key being pressed.
    hit(&server, "api", "secret-customer", 4);
    screen.until("secret-customer ", " 7 ");
    screen.until("api ", " 28.57 % ");
    hit(&server, "other", "second-customer", 9);
    screen.until("second-customer ", " 9 ");
    let above = |screen: &Screen, one: &str, other: &str| {
        let lines = screen.lines();
        let place = |begin: &str| lines.iter().position(|line| line.starts_with(begin));
        place(one).is_some() && place(one) < place(other)
    };
    assert!(above(&screen, "second-customer ", "secret-customer "));
    screen.press("d");
    screen.until("RULE", "DENIED*");
    assert!(above(&screen, "secret-customer ", "second-customer "));
    screen.press("n");
    screen.until("RULE*", "HITS ");
    screen.press(" ");
    screen.until("PAUSED", "store ok");
    screen.press("q");
    screen.ended(0);
    let log = server.log();
    assert!(!log.contains("customer") && !log.contains(READ), "{log}");
}

#[test]
fn signals_restore_the_terminal() {
    let server = with_token();
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let screen = Screen::open(&server);
        screen.until("q quit", "h hits");
        screen.signal(signal);
        screen.ended(code);
    }
}

#[test]
fn a_server_that_restarts_is_asked_again() {
    let mut server = with_token();
    hit(&server, "api", "before", 1);
    let screen = Screen::open(&server);
    screen.until("before ", " 1 ");
    // It stops in order: its events end.
    server.process.signal("TERM");
    screen.until("server \"http://", "trying again");
    assert!(screen.lines().iter().any(|line| line.starts_with("before ")), "the figures stay");
    server.process.kill();
    server.launch(&["--config", "tollgate.toml"], |_| {});
    screen.until("store ok", "http");
    hit(&server, "api", "after", 2);
    screen.until("after ", " 2 ");
    screen.signal("TERM");
    screen.ended(143);
}

#[test]
fn once_prints_a_table_and_json_an_object() {
    let server = with_token();
    hit(&server, "api", "alice", 7);
    hit(&server, "api", "esc\u{1b}[31m", 1);
    let url = format!("http://{}", server.admin);
    let (code, out, error) = top(&["--once", "--server", &url, "--token", READ]);
    assert_eq!(code, 0, "{error}");
    let row = |begin: &str| {
        let line = out.lines().find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("{out}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("api "), ["api", "8", "0", "2", "25.00", "%", "0", "5/hour"], "{out}");
    assert_eq!(row("alice "), ["alice", "7", "0", "2", "0", "api"]);
    assert_eq!(row("RULE")[..2], ["RULE", "HITS*"]);
    assert!(out.contains("esc") && !out.contains('\u{1b}'), "{out:?}");
    let (code, out, _) = top(&["--json", "--server", &url, "--token", READ, "--max-keys", "1"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["rules"][0]["name"]), (0, &json!("api")));
    assert_eq!(json["rules"][0]["denied"], 2);
    assert_eq!(json["keys"]["busiest"].as_array().unwrap().len(), 1);
    assert_eq!(json["keys"]["busiest"][0]["key"], "alice");
    assert_eq!(json["overview"]["store"]["url"], "memory:");
    let (code, _, error) = top(&["--server", &url]);
    assert!(code == 2 && error.contains("standard output is no terminal"), "{error}");
}

#[test]
fn errors_say_what_to_do() {
    let server = with_token();
    let admin = format!("http://{}", server.admin);
    let http = format!("http://{}", server.http);
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    for (url, more, text) in [
        (&nowhere, &[][..], "is the server running?"),
        (&admin, &[], "the admin port needs a token: --token, or TOLLGATE_ADMIN_TOKEN"),
        (&admin, &["--token", "guess"], "the admin port does not know this token"),
        (&http, &[], "is this the admin port (8082 by default)"),
        (&format!("http://{}", server.resp), &[], "is this the admin port (8082 by default)"),
        (&format!("https://{}", server.admin), &[], "should the URL begin with http?"),
    ] {
        let (code, out, error) = top(&[&["--json", "--server", url][..], more].concat());
        assert_eq!((code, &out[..]), (2, ""), "{url}");
        assert!(error.contains(text) && !error.contains("guess"), "{url}: {error}");
    }
}

#[test]
fn tls_and_certificates_of_clients_are_those_of_hit() {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    let file = |name: &str| certificates.name(name);
    let server = Server::told(&format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        file("server.crt"),
        file("server.key"),
        file("ca.crt")
    ));
    let url = format!("https://{}", server.admin);
    let with = |more: &[&str]| top(&[&["--json", "--server", &url][..], more].concat());
    let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let (code, out, error) = with(&["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert!(code == 0 && out.contains("\"overview\""), "{error}");
    let (code, _, error) = with(&["--ca", &ca]);
    assert!(code == 2 && error.to_lowercase().contains("certificate"), "{error}");
    let (code, _, error) = with(&["--ca", &strangers.name("ca.crt")]);
    assert!(code == 2 && error.contains("invalid peer certificate"), "{error}");
}
