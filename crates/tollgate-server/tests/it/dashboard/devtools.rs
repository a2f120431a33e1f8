//! A real browser, driven by the DevTools protocol.

use std::net::TcpStream;

use serde_json::{Value, json};
use tollgate_testservers::{PATIENCE, Process, eventually};
use tungstenite::{Message, WebSocket};

/// Chromium with one page.
pub(super) struct Browser {
    _process: Process,
    socket: WebSocket<TcpStream>,
    session: String,
    number: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts a browser without a window, with a profile of its own.
    pub(super) fn start() -> Browser {
        let mut process = Process::new("chromium", "chromium");
        let profile = process.dir().join("profile");
        process.start(|command| {
            command.args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ]);
            command.args(["--disable-quic", "--no-first-run", "--disable-background-networking"]);
            command.args(["--disable-component-update", "--disable-sync", "--disable-extensions"]);
            command.arg("--remote-debugging-port=0");
            command.arg(format!("--user-data-dir={}", profile.display()));
            command.arg("about:blank");
        });
        let port_file = profile.join("DevToolsActivePort");
        let port = || std::fs::read_to_string(&port_file).unwrap_or_default();
        eventually("the browser listens", || port().lines().count() == 2);
        let port = port();
        let (port, path) = port.split_once('\n').unwrap();
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = tungstenite::client(url, stream).unwrap();
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser { _process: process, socket, session, number: 0, events };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a method of the protocol, and keeps the events that arrive meanwhile.
    pub(super) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut call = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            call["sessionId"] = self.session[..].into();
        }
        self.socket.send(Message::text(call.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(text.as_str()).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// The value of an expression in the page.
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let call = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &call);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(super) fn until(&mut self, expression: &str) {
        eventually(expression, || self.value(expression) == true);
    }

    pub(super) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.until(&format!(
            "location.href.startsWith({url:?}) && document.readyState === 'complete'"
        ));
    }

    /// The text of the first element that a selector finds.
    pub(super) fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
        text.as_str().unwrap().to_owned()
    }

    /// Clicks with the mouse, in the middle of the element.
    pub(super) fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?})?.checkVisibility() === true"));
        let middle = self.value(&format!(
            "(() => {{ const element = document.querySelector({selector:?});
                element.scrollIntoView({{ block: 'center' }});
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Types a text in place of what a field has.
    pub(super) fn fill(&mut self, selector: &str, text: &str) {
        self.value(&format!("document.querySelector({selector:?}).select()"));
        self.call("Input.insertText", &json!({ "text": text }));
    }

    pub(super) fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// A screen of this width, light or dark.
    pub(super) fn screen(&mut self, width: u32, theme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// The URLs of all requests so far.
    pub(super) fn requests(&mut self) -> Vec<String> {
        self.value("1");
        let sent =
            self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Errors in the console, exceptions, and violations of the policy of the page.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        self.value("1");
        let complains = |event: &&Value| {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    matches!(parameters["type"].as_str(), Some("error" | "warning" | "assert"))
                }
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                "Audits.issueAdded" => parameters["issue"]["code"] == "ContentSecurityPolicyIssue",
                _ => false,
            }
        };
        self.events.iter().filter(complains).map(Value::to_string).collect()
    }
}
