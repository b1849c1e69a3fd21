//! A headless browser, driven by the `DevTools` protocol over its standard input and output.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::left_out::left_out;

/// Milliseconds after which a condition is not awaited any longer.
const PATIENCE_MS: u64 = 60_000;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

/// Returns the browser that `AIPERF_TEST_BROWSER` names, or the first that is installed.
fn program() -> Option<OsString> {
    if let Some(given) = std::env::var_os("AIPERF_TEST_BROWSER") {
        return Some(given);
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file());
    found.map(Into::into)
}

impl Browser {
    /// Starts a browser with a page of this size; counts what is left out if none is installed.
    pub(crate) fn start(width: u32, height: u32) -> Option<Self> {
        let Some(program) = program() else {
            left_out("browser (chromium, google-chrome or AIPERF_TEST_BROWSER)");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut data = OsString::from("--user-data-dir=");
        data.push(profile.path());
        // The browser reads commands from file 3 and writes to file 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2"])
            .arg(program)
            // A test may run as root and in a container, where there is no sandbox.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--remote-debugging-pipe"])
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            calls: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.resize(width, height);
        Some(browser)
    }

    /// Changes the size of the page.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Opens a file, with a fragment such as `#from=1`, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, fragment: &str) {
        let url = format!("file://{}{fragment}", file.display());
        // A change of the fragment alone would not load anything.
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": url}));
        self.wait(&format!(
            "location.href.startsWith({}) && document.readyState === 'complete'",
            json!(format!("file://{}", file.display()))
        ));
    }

    /// Calls a method of the protocol, and returns its result.
    ///
    /// # Panics
    ///
    /// If the method fails or the browser ends.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        self.input.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended during {method}");
            let mut received: Value = serde_json::from_slice(&bytes).unwrap();
            if received["id"] == json!(self.calls) {
                assert!(received.get("error").is_none(), "{method}: {received}");
                return received["result"].take();
            }
            self.events.push(received);
        }
    }

    /// Returns the value of an expression, awaiting a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut found = self.call("Runtime.evaluate", &params);
        assert!(found.get("exceptionDetails").is_none(), "{expression}: {found}");
        found["result"]["value"].take()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub(crate) fn wait(&mut self, expression: &str) {
        let condition = format!(
            "new Promise((resolve) => {{
               const end = performance.now() + {PATIENCE_MS};
               const look = () => {{
                 if ({expression}) resolve(true);
                 else if (performance.now() > end) resolve(false);
                 else setTimeout(look, 10);
               }};
               look();
             }})"
        );
        // A page that is replaced in the meantime takes the promise with it.
        for _ in 0..3 {
            let params =
                json!({"expression": condition, "returnByValue": true, "awaitPromise": true});
            let found = self.call("Runtime.evaluate", &params);
            if found["result"]["value"] == json!(true) {
                return;
            }
        }
        panic!("not within {PATIENCE_MS} ms: {expression}");
    }

    /// Presses Enter or Escape.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = if key == "Enter" { (13, "\r") } else { (27, "") };
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let params = json!({
                "type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code
            });
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Drags the pointer with its button pressed.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        for (kind, (x, y), buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", middle, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({
                "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1
            });
            self.call("Input.dispatchMouseEvent", &params);
        }
    }

    /// Returns what went wrong since the last call: errors, violations of the page's policy, and
    /// requests that are not for the page itself.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // Whatever has been sent by now comes before the answer.
        self.call("Runtime.evaluate", &json!({"expression": "0"}));
        let is_own = |url: &str| {
            ["file:", "data:", "blob:", "about:"].iter().any(|scheme| url.starts_with(scheme))
        };
        let is_complaint = |event: &&Value| {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    matches!(params["type"].as_str(), Some("error" | "warning" | "assert"))
                }
                "Log.entryAdded" => params["entry"]["level"] != "verbose",
                "Network.requestWillBeSent" => {
                    !params["request"]["url"].as_str().is_some_and(is_own)
                }
                _ => false,
            }
        };
        let events = std::mem::take(&mut self.events);
        events.iter().filter(is_complaint).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
