//! A server that speaks as S3 does: moto, in `tests/s3.py`, which says what can go wrong there.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Located, agent, almanac, printed};

/// The address of moto, and its process, which ends with that of the tests.
static ENDPOINT: LazyLock<(String, Child)> = LazyLock::new(|| {
    let python = std::env::var("ALMANAC_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder above").join("tests/s3.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("Python starts");
    let mut address = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut address).expect("text");
    assert!(!address.is_empty(), "run the tests with tests/run, which installs moto");
    (address.trim_end().to_owned(), process)
});

/// The caller, in the form of AWS. It is not looked at.
const ASKER: &str =
    "AWS4-HMAC-SHA256 Credential=test/20260601/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

fn ask(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let request = ureq::http::Request::builder().method(method).uri(format!("{}/{path}", ENDPOINT.0));
    let request = request.header("Authorization", ASKER).header("Content-Type", "application/octet-stream");
    let mut answer = agent().run(request.body(body.to_vec()).expect("a request")).expect("an answer");
    let text = answer.body_mut().with_config().limit(64 << 20).read_to_vec().expect("a body");
    assert!(answer.status().is_success(), "{method} {path}: {}", String::from_utf8_lossy(&text));
    text
}

/// A bucket of a test's own.
pub(crate) struct Bucket {
    pub(crate) name: String,
}

impl Bucket {
    /// A new one; `fault` says what goes wrong there, and is `fine` when nothing does.
    pub(crate) fn new(fault: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{fault}-{}", MADE.fetch_add(1, Ordering::Relaxed));
        ask("PUT", &name, b"");
        Self { name }
    }

    /// The address of what is under a prefix.
    pub(crate) fn at(&self, prefix: &str) -> String {
        format!("s3://{}/{prefix}", self.name)
    }

    /// The keys of all that is in it.
    pub(crate) fn keys(&self) -> Vec<String> {
        let listed = String::from_utf8(ask("GET", &format!("{}?list-type=2", self.name), b"")).expect("text");
        let keys =
            listed.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()));
        keys.collect()
    }

    pub(crate) fn read(&self, key: &str) -> Vec<u8> {
        ask("GET", &format!("{}/{key}", self.name), b"")
    }

    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        ask("PUT", &format!("{}/{key}", self.name), bytes);
    }

    /// Copies all that is under a prefix into a folder.
    pub(crate) fn copy(&self, prefix: &str, to: &Path) {
        for key in self.keys() {
            let Some(name) = key.strip_prefix(prefix).and_then(|name| name.strip_prefix('/')) else {
                continue;
            };
            let path = to.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, self.read(&key)).expect("it is written");
        }
    }
}

/// The real binary, with S3 there.
pub(crate) fn with_s3(place: &(impl Located + ?Sized), args: &[&str]) -> Command {
    let mut command = almanac(place, args);
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"] {
        command.env_remove(name);
    }
    command.envs([
        ("AWS_ENDPOINT_URL_S3", &*ENDPOINT.0),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    command
}

/// Runs it to its end.
pub(crate) fn run(place: &(impl Located + ?Sized), args: &[&str]) -> Output {
    with_s3(place, args).output().expect("the binary starts")
}

/// Runs it; it must succeed.
pub(crate) fn run_ok(place: &(impl Located + ?Sized), args: &[&str]) -> String {
    printed(run(place, args), args)
}
