//! A browser for tests: chromium, driven by the plain JSON of WebDriver over the loopback.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Maximum looks at a page until it shows the expected content. Builds without optimisation are slow.
const MAX_LOOKS: usize = 1_800;
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Flags that keep chromium from connecting to any server but the one under test.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-GB",
];

/// A window of a browser of its own, closed when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    axe: String,
}

impl Browser {
    /// Opens a browser.
    pub(crate) fn start() -> Self {
        let axe = std::env::var("ALMANAC_TEST_AXE")
            .expect("run the tests with tests/run, which installs chromium and axe-core (or skip it: tests/run --quick)");
        let axe = std::fs::read_to_string(&axe).unwrap_or_else(|error| panic!("{axe}: {error}"));
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts (Debian: apt-get install chromium chromium-driver)");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map(Result::unwrap);
        let port = lines.find_map(|line| {
            let (_, rest) = line.split_once("successfully on port ")?;
            rest.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.expect("chromedriver says where it listens");
        std::thread::spawn(move || lines.for_each(drop));
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = config.timeout_global(Some(Duration::from_secs(180))).build().into();
        let options = json!({"args": FLAGS});
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let mut browser = Self { driver, agent, session: format!("http://127.0.0.1:{port}/session"), axe };
        let made = browser.call("POST", "", &json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session += &format!("/{}", made["sessionId"].as_str().unwrap());
        browser.call("POST", "/timeouts", &json!({"script": 60_000, "pageLoad": 60_000}));
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let answer = match method {
            "GET" => self.agent.get(&url).call(),
            "DELETE" => self.agent.delete(&url).call(),
            _ => self.agent.post(&url).header("Content-Type", "application/json").send(body.to_string()),
        };
        let mut answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let is_done = answer.status().is_success();
        let text = answer.body_mut().with_config().limit(64 << 20).read_to_string().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(is_done, "{method} {path}: {}", value["value"]["message"]);
        value["value"].clone()
    }

    /// Sets the size of the window.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.call("POST", "/window/rect", &json!({"width": width, "height": height}));
    }

    /// Goes to a page.
    pub(crate) fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({"url": url}));
    }

    /// Returns the result of a script.
    pub(crate) fn run(&self, script: &str, args: &[Value]) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": args}))
    }

    /// Returns the value that a script passes to its last argument, a callback.
    pub(crate) fn run_until_done(&self, script: &str, args: &[Value]) -> Value {
        self.call("POST", "/execute/async", &json!({"script": script, "args": args}))
    }

    /// Current window or tab.
    pub(crate) fn window(&self) -> String {
        self.call("GET", "/window", &Value::Null).as_str().unwrap().to_owned()
    }

    /// Switches to another window.
    pub(crate) fn switch_to(&self, window: &str) {
        self.call("POST", "/window", &json!({"handle": window}));
    }

    /// Opens another tab of this browser, and switches to it.
    pub(crate) fn open_window(&self) {
        let made = self.call("POST", "/window/new", &json!({"type": "tab"}));
        self.switch_to(made["handle"].as_str().unwrap());
    }

    /// Runs a script until its result is true.
    pub(crate) fn wait_for(&self, what: &str, args: &[Value]) {
        for _ in 0..MAX_LOOKS {
            if self.run(&format!("return Boolean({what})"), args) == true {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("it never was so: {what} {args:?}; the page says: {}", self.text("body"));
    }

    /// Visible text of the first match of a selector.
    pub(crate) fn text(&self, selector: &str) -> String {
        let found = self.run("return ((found) => found?.innerText ?? found?.textContent ?? '')(document.querySelector(arguments[0]))", &[selector.into()]);
        found.as_str().unwrap().to_owned()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.call("POST", "/element", &json!({"using": "css selector", "value": selector}));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Clicks the first match of a selector.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into the first match of a selector.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Presses a key at the present focus. Names of keys are those of WebDriver.
    pub(crate) fn press(&self, key: &str) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.call(
            "POST",
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Drags the pointer across the first match of a selector, from one share of its width to another.
    pub(crate) fn drag(&self, selector: &str, from: f64, to: f64) {
        let script = "const stage = document.querySelector(arguments[0]); stage.scrollIntoView({ block: 'center' }); const box = stage.getBoundingClientRect(); return [box.left, box.width, box.top + box.height / 2]";
        let [left, width, y]: [f64; 3] =
            serde_json::from_value(self.run(script, &[selector.into()])).unwrap();
        let to_share = |share: f64| json!({"type": "pointerMove", "x": (left + width * share).round(), "y": y.round(), "duration": 20});
        let middle = f64::midpoint(from, to);
        let moves = [
            to_share(from),
            json!({"type": "pointerDown", "button": 0}),
            to_share(middle),
            to_share(to),
            json!({"type": "pointerUp", "button": 0}),
        ];
        let actions = json!([{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]);
        self.call("POST", "/actions", &json!({"actions": actions}));
    }

    /// Lines written to the console since the last call: errors, warnings, and refusals by a policy.
    pub(crate) fn console(&self) -> Vec<String> {
        let lines = self.call("POST", "/se/log", &json!({"type": "browser"}));
        lines.as_array().unwrap().iter().map(|line| line["message"].to_string()).collect()
    }

    /// Faults that axe-core finds on the page, by WCAG 2.2 AA and the rules of good practice.
    pub(crate) fn violations(&self) -> Vec<String> {
        // By the debugger, so that no policy of the page stops it.
        self.run(&self.axe, &[]);
        let rules = r#"["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]"#;
        let script = format!(
            "const done = arguments[0]; axe.run(document, {{runOnly: {rules}}}).then(done, (error) => done({{failed: String(error)}}))"
        );
        let found = self.call("POST", "/execute/async", &json!({"script": script, "args": []}));
        assert!(
            found["passes"].as_array().is_some_and(|passes| passes.len() > 10),
            "axe did not look: {found}"
        );
        let one = |rule: &Value| {
            let places = rule["nodes"].as_array().unwrap().iter().map(|node| node["html"].to_string());
            format!("{}: {}", rule["id"], places.collect::<Vec<_>>().join(" "))
        };
        found["violations"].as_array().unwrap().iter().map(one).collect()
    }

    /// Keeps a picture of the window in the target folder; returns its path.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        let picture = self.call("GET", "/screenshot", &Value::Null);
        std::fs::write(&path, STANDARD.decode(picture.as_str().unwrap()).unwrap()).unwrap();
        path
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already, by the mistake that the test found.
        _ = self.agent.delete(&self.session).call();
        _ = self.driver.kill();
        _ = self.driver.wait();
    }
}
