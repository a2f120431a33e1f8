//! Scopes of tokens, sessions of browsers, and requests of other sites.

use tollgate_testservers::{Certificates, eventually};

use super::*;

const RULES: &str = "[limits]\napi = '5/hour'\n";

fn server() -> Server {
    Server::with(&(RULES.to_owned() + &tokens()), &["--log-level", "trace"], |_| {})
}

fn key() -> Value {
    json!({ "rule": "api", "key": "secret-customer" })
}

/// The cookie that a login gives.
fn log_in(server: &Server, token: &str) -> String {
    let body = json!({ "token": token }).to_string();
    let json = "content-type: application/json";
    let reply = send(server.admin, "POST /api/v1/session", &[json], &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    let cookie = reply.header("set-cookie").unwrap();
    format!("cookie: {}", cookie.split(';').next().unwrap())
}

#[test]
fn a_token_to_read_changes_nothing_and_one_to_operate_does() {
    let server = server();
    hit(&server, "api", "secret-customer", 3);
    for path in ["overview", "rules", "keys", "store", "playground?limit=1/day"] {
        assert_eq!(get(&server, path, READ).status, 200, "{path}");
        assert_eq!(get(&server, path, "guess").status, 401, "{path}");
        assert_eq!(send(server.admin, &format!("GET /api/v1/{path}"), &[], "").status, 401);
    }
    let used = || post(&server, "key", READ, &key()).json()["limits"][0]["used"].clone();
    assert_eq!(used(), 3);
    for action in ["reset", "refund", "set"] {
        let mut body = key();
        body["units"] = 1.into();
        let reply = post(&server, &format!("actions/{action}"), READ, &body);
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(reply.body.contains("scope operate"), "{reply:?}");
    }
    assert_eq!(used(), 3);
    let act = |action: &str, units: Option<u64>| {
        let mut body = key();
        body["units"] = units.into();
        let reply = post(&server, &format!("actions/{action}"), OPERATE, &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["limits"][0]["used"].clone()
    };
    assert_eq!(act("refund", Some(1)), 2);
    assert_eq!(act("set", Some(5)), 5);
    assert_eq!(act("reset", None), 0);
    assert_eq!(post(&server, "actions/set", OPERATE, &key()).status, 400, "without units");

    let log = server.log();
    let line = log.lines().find(|line| line.contains("action=\"set\"")).unwrap();
    assert!(line.contains("token=\"operator\"") && line.contains("rule=\"api\""), "{line}");
    for secret in ["secret-customer", READ, OPERATE, "guess"] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn a_login_gives_a_cookie_that_only_this_site_sends() {
    let server = server();
    let json = "content-type: application/json";
    for (headers, body, status) in [
        (&[json][..], r#"{"token":"guess"}"#, 401),
        (&[json], "guess", 400),
        (&[], r#"{"token":"token-that-reads"}"#, 415),
        (&["content-type: text/plain"], r#"{"token":"token-that-reads"}"#, 415),
        (&[json, "origin: https://evil.example"], r#"{"token":"token-that-reads"}"#, 403),
        (&[json, "sec-fetch-site: same-site"], r#"{"token":"token-that-reads"}"#, 403),
    ] {
        let reply = send(server.admin, "POST /api/v1/session", headers, body);
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(reply.header("set-cookie"), None);
        assert!(!reply.body.contains("guess"), "{reply:?}");
    }
    let body = json!({ "token": READ }).to_string();
    let reply = send(server.admin, "POST /api/v1/session", &[json], &body);
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(READ), "{cookie}");
    assert_eq!(reply.json()["scope"], "read");
    let log = server.log();
    assert!(log.contains("logged in") && !log.contains(READ) && !log.contains("guess"), "{log}");
}

#[test]
fn a_session_can_do_what_its_token_can_and_ends_by_a_logout() {
    let server = server();
    let (reads, operates) = (log_in(&server, READ), log_in(&server, OPERATE));
    let json = "content-type: application/json";
    let reset = |cookie: &str, more: &[&str]| {
        let headers = [&[cookie, json], more].concat();
        send(server.admin, "POST /api/v1/actions/reset", &headers, &key().to_string()).status
    };
    assert_eq!((reset(&reads, &[]), reset(&operates, &[])), (403, 200));
    // As a page of another origin would make the browser send it, if the cookie came along.
    let own = format!("origin: http://{}", server.admin);
    for (header, status) in [
        ("origin: https://evil.example", 403),
        ("origin: null", 403),
        ("sec-fetch-site: cross-site", 403),
        ("sec-fetch-site: same-site", 403),
        ("sec-fetch-site: same-origin", 200),
        (&own[..], 200),
    ] {
        assert_eq!(reset(&operates, &[header]), status, "{header}");
    }
    let form = [&operates[..], "content-type: application/x-www-form-urlencoded"];
    assert_eq!(send(server.admin, "POST /api/v1/actions/reset", &form, "rule=api").status, 415);
    let overview =
        |headers: &[&str]| send(server.admin, "GET /api/v1/overview", headers, "").status;
    assert_eq!(overview(&[&operates]), 200);
    assert_eq!(overview(&[&operates, "sec-fetch-site: cross-site"]), 403);
    assert_eq!(overview(&["cookie: tollgate_1=guess"]), 401);

    let who = |cookie: &str| send(server.admin, "GET /api/v1/session", &[cookie], "").json();
    assert_eq!(
        (&who(&operates)["name"], &who(&operates)["scope"]),
        (&json!("operator"), &json!("operate"))
    );
    assert_eq!(send(server.admin, "DELETE /api/v1/session", &[&operates], "").status, 200);
    assert_eq!((overview(&[&operates]), overview(&[&reads])), (401, 200));
    assert_eq!(who(&operates)["admitted"], false);
}

#[test]
fn a_session_ends_when_its_token_is_removed() {
    let server = server();
    let cookie = log_in(&server, READ);
    let overview = || send(server.admin, "GET /api/v1/overview", &[&cookie], "").status;
    assert_eq!(overview(), 200);
    let others =
        format!("[auth.admin_tokens]\noperator = '{}'\n", Hash::from_token(OPERATE.as_bytes()));
    server.put("tollgate.toml", &(RULES.to_owned() + &others));
    server.process.signal("HUP");
    eventually("the session ends", || overview() == 401);
}

#[test]
fn under_tls_the_cookie_is_secure() {
    let certificates = Certificates::new();
    let (certificate, key) = (certificates.name("server.crt"), certificates.name("server.key"));
    let server =
        Server::told(&format!("{}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n", tokens()));
    let output = std::process::Command::new("curl")
        .args([
            "--silent",
            "--insecure",
            "--include",
            "--json",
            &json!({ "token": READ }).to_string(),
        ])
        .arg(format!("https://{}/api/v1/session", server.admin))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let cookie = said.lines().find(|line| line.starts_with("set-cookie")).unwrap();
    assert!(cookie.contains("; secure"), "{cookie}");
}

#[test]
fn without_tokens_programs_of_this_machine_may_operate_and_web_pages_may_not() {
    let server = Server::told(RULES);
    let json = "content-type: application/json";
    let reset = |headers: &[&str]| {
        let headers = [&[json], headers].concat();
        send(server.admin, "POST /api/v1/actions/reset", &headers, &key().to_string()).status
    };
    assert_eq!(reset(&[]), 200);
    assert_eq!(reset(&["origin: https://evil.example"]), 403);
    assert_eq!(reset(&["sec-fetch-site: cross-site"]), 403);
    let who = send(server.admin, "GET /api/v1/session", &[], "").json();
    assert_eq!(
        who,
        json!({"admitted": true, "token_needed": false, "name": "", "scope": "operate"})
    );
}

#[test]
fn without_tokens_a_port_that_other_machines_reach_is_read_only() {
    let mut server = Server::new();
    server.write("tollgate.toml", RULES);
    let all = format!("0.0.0.0:{}", server.admin.port());
    server.launch(&["--config", "tollgate.toml", "--allow-anonymous", "--admin", &all], |_| {});
    let json = "content-type: application/json";
    let reply = send(server.admin, "POST /api/v1/actions/reset", &[json], &key().to_string());
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(send(server.admin, "GET /api/v1/rules", &[], "").status, 200);
}

#[test]
fn browsers_get_a_page_with_a_strict_policy_and_curl_gets_text() {
    let server = server();
    let page = send(server.admin, "GET /", &["accept: text/html,*/*;q=0.8"], "");
    assert_eq!(page.status, 200);
    assert!(page.body.starts_with("<!doctype html>"), "{page:?}");
    let policy = page.header("content-security-policy").unwrap();
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    // Nothing is written into the page that the policy would refuse.
    for refused in ["style=\"", "onclick=", "<script>", "http://", "https://"] {
        assert!(!page.body.contains(refused), "{refused}");
    }
    assert_eq!(send(server.admin, "GET /", &["accept: */*"], "").status, 401);
    let token = format!("authorization: Bearer {READ}");
    let text = send(server.admin, "GET /", &["accept: */*", &token], "");
    assert!(text.body.starts_with("tollgate, for operators"), "{text:?}");
}

#[test]
fn a_scope_that_does_not_exist_is_a_mistake_with_its_line() {
    let server = Server::new();
    let hash = Hash::from_token(b"x");
    let path = server.path("tollgate.toml");
    let check = |text: String| {
        server.write("tollgate.toml", &text);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = { output }.arg("check").arg(&path).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = check(format!("[auth.admin_tokens]\nme = {{ hash = '{hash}', scope = 'write' }}\n"));
    assert!(
        said.contains("toml:2:") && said.contains("write") && said.contains("operate"),
        "{said}"
    );
    let said = check(format!("[auth.tokens]\nshop = {{ hash = '{hash}', scope = 'read' }}\n"));
    assert!(said.contains("toml:2:"), "{said}");
    let said = check("[auth.admin_tokens]\nme = { hash = 'tg_secret' }\n".to_owned());
    assert!(said.contains("no hash of a token") && !said.contains("tg_secret"), "{said}");
}
