//! The dashboard in a real browser.

use super::devtools::Browser;
use super::*;

const RULES: &str =
    "[limits]\napi = '5/hour'\n[limits.search]\nlimit = '100/minute burst=20'\nshadow = true\n";

fn server() -> Server {
    Server::with(&(RULES.to_owned() + &tokens()), &["--log-level", "trace"], |_| {})
}

fn log_in(browser: &mut Browser, server: &Server, token: &str) {
    browser.open(&format!("http://{}/", server.admin));
    browser.until("document.activeElement?.id === 'token'");
    browser.fill("#token", token);
    browser.press("Enter");
    browser.until("!document.getElementById('pages').hidden");
}

/// The pages and their headings.
const PAGES: [(&str, &str); 5] = [
    ("overview", "Overview"),
    ("rules", "Rules"),
    ("keys", "Keys"),
    ("store", "Store and nodes"),
    ("playground", "Playground"),
];

/// Waits until a page has its heading and its figures.
fn is_shown(browser: &mut Browser, page: &str, heading: &str) {
    browser.until(&format!("document.querySelector('#page h1')?.innerText === {heading:?}"));
    browser.until(match page {
        "store" => "document.querySelector('.facts dd')?.innerText === 'memory:'",
        _ => "document.querySelectorAll('tbody tr').length > 0",
    });
}

/// Nothing went to other hosts, and no token is in a URL.
fn stayed_home(browser: &mut Browser, server: &Server) {
    let own = format!("http://{}/", server.admin);
    for url in browser.requests() {
        assert!(url.starts_with(&own) || url.starts_with("data:") || url == "about:blank", "{url}");
        assert!(!url.contains(READ) && !url.contains(OPERATE), "{url}");
    }
}

#[test]
fn a_login_is_rejected_and_accepted_and_the_chart_moves_under_load() {
    let server = server();
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", server.admin));
    browser.until("document.activeElement?.id === 'token'");
    browser.fill("#token", "guess");
    browser.press("Enter");
    browser.until(
        "document.getElementById('login-error').innerText.includes('does not know this token')",
    );
    // The browser itself reports the answer 401.
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("401"), "{complaints:?}");

    browser.fill("#token", READ);
    browser.press("Enter");
    browser.until("document.getElementById('live').innerText === 'live'");
    assert_eq!(browser.text("#who"), "watcher (read)");
    assert_eq!(browser.value("document.cookie"), "", "scripts cannot read the cookie");
    let area = "document.querySelector('.area.denied').getAttribute('d')";
    browser.until(&format!("{area}.length > 0"));
    let before = browser.value(area);
    hit(&server, "api", "secret-customer", 40);
    browser.until(&format!("{area} !== {before} && {area}.match(/,/g).length > 4"));
    browser.until("document.querySelectorAll('.tile .more')[1].innerText === '35 of 40'");
    let moved = browser.value(area);
    browser.until(&format!("{area} !== {moved}"));

    // The arrow keys show single seconds.
    browser.value("document.querySelector('.chart').focus()");
    browser.press("ArrowLeft");
    browser.until("document.querySelector('.legend .when').innerText.endsWith('ago')");

    for (page, heading) in PAGES {
        browser.click(&format!("#pages a[href='#/{page}']"));
        is_shown(&mut browser, page, heading);
        let current = "document.querySelector('#pages a[aria-current=page]').hash";
        assert_eq!(browser.value(current), format!("#/{page}"));
    }
    browser.click("#logout");
    browser.until("!document.getElementById('login').hidden");
    assert_eq!(browser.complaints().len(), 1, "{:?}", browser.complaints());
    stayed_home(&mut browser, &server);
    let log = server.log();
    assert!(!log.contains("secret-customer") && !log.contains(READ) && !log.contains("guess"));
}

#[test]
fn the_page_of_a_key_agrees_with_the_api_and_resets_it() {
    let server = server();
    hit(&server, "api", "secret-customer", 7);
    let mut browser = Browser::start();
    log_in(&mut browser, &server, OPERATE);
    browser.click("#pages a[href='#/keys']");
    browser.click("tbody a");
    browser.until("document.querySelector('#page h1')?.innerText === 'secret-customer'");
    let body = json!({ "rule": "api", "key": "secret-customer" });
    let state = || post(&server, "key", READ, &body).json()["limits"][0].clone();
    let agrees = |browser: &mut Browser| {
        let (used, limit, left) = (&state()["used"], &state()["limit"], &state()["remaining"]);
        let shown = format!("{used} of {limit} in use, {left} remaining");
        browser
            .until(&format!("document.querySelector('.limit .figure')?.innerText === {shown:?}"));
        let part = state()["used"].as_f64().unwrap() / state()["limit"].as_f64().unwrap();
        browser.until(&format!("document.querySelector('meter').value === {part}"));
    };
    agrees(&mut browser);
    assert_eq!(state()["used"], 5);
    browser.until("document.querySelector('.reasons').innerText.includes('5 of 5 are in use')");
    // A decision that is made while the page is open.
    hit(&server, "api", "secret-customer", 1);
    browser.until("document.querySelector('.recent li')?.innerText.includes('denied')");

    browser.click("#refund");
    browser.click("#confirm-yes");
    browser.until("document.querySelector('.reasons').innerText === ''");
    assert_eq!(state()["used"], 4);
    agrees(&mut browser);
    browser.click("#reset");
    browser.click("#confirm button[value=no]");
    browser.until("!document.getElementById('confirm').open");
    assert_eq!(state()["used"], 4, "it was not confirmed");
    browser.click("#reset");
    browser.click("#confirm-yes");
    browser.until("document.querySelector('.limit .figure').innerText.startsWith('0 of 5')");
    assert_eq!(state()["used"], 0);
    agrees(&mut browser);
    assert_eq!(browser.complaints(), [""; 0]);
    stayed_home(&mut browser, &server);
    let log = server.log();
    assert!(log.contains("action=\"reset\"") && !log.contains("secret-customer"), "{log}");
}

#[test]
fn a_token_to_read_sees_no_actions_and_the_server_refuses_them() {
    let server = server();
    hit(&server, "api", "secret-customer", 2);
    let mut browser = Browser::start();
    log_in(&mut browser, &server, READ);
    browser.click("#pages a[href='#/keys']");
    browser.click("tbody a");
    browser.until("document.querySelector('meter')?.value === 0.4");
    assert_eq!(browser.value("document.getElementById('reset')"), Value::Null);
    let status = browser.value(
        "fetch('/api/v1/actions/reset', { method: 'POST', headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ rule: 'api', key: 'secret-customer' }) }).then(({ status }) => status)",
    );
    assert_eq!(status, 403);
}

#[test]
fn every_page_fits_a_phone_and_both_themes() {
    let server = Server::told(RULES);
    hit(&server, "api", &"a-long-key-without-a-space".repeat(8), 9);
    let mut browser = Browser::start();
    for (width, theme) in [(390, "light"), (390, "dark"), (1280, "dark")] {
        browser.screen(width, theme);
        browser.open(&format!("http://{}/", server.admin));
        for (page, heading) in PAGES {
            browser.value(&format!("location.hash = '#/{page}'"));
            is_shown(&mut browser, page, heading);
            let wide =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert!(browser.value(wide).as_i64().unwrap() <= 0, "{page} at {width} px");
        }
        let dark =
            browser.value("getComputedStyle(document.body).backgroundColor === 'rgb(15, 20, 27)'");
        assert_eq!(dark, theme == "dark");
    }
    // The button overrides the system.
    browser.click("#theme");
    assert_eq!(
        browser.value("getComputedStyle(document.body).backgroundColor"),
        "rgb(245, 246, 248)"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}
