use std::fmt::Write as _;

use super::*;

/// A folder with the default file `almanac.toml`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("almanac.toml"), content).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("almanac.toml")
    }

    fn resolve(&self, given: Given) -> Result<Config> {
        Config::resolve(given, &self.file())
    }

    /// Text of a refusal, without the name of the folder.
    fn refusal(&self, given: Given) -> String {
        let message = self.resolve(given).unwrap_err().to_string();
        message.replace(self.0.path().to_str().unwrap(), "FOLDER")
    }
}

fn flag(name: &Name, value: impl Into<OsString>) -> Option<Setting<OsString>> {
    Some(Setting { value: value.into(), origin: Origin::Flag(name.flag) })
}

fn variable(name: &Name, value: impl Into<OsString>) -> Option<Setting<OsString>> {
    Some(Setting { value: value.into(), origin: Origin::Environment(name.variable) })
}

const ALL_KEYS: &str = "
store = \"dynamodb:from-file\"
data = \"from/file\"
region = \"eu-west-1\"
endpoint = \"http://file:8000\"
listen = \"127.0.0.1:1\"
log_format = \"json\"
";

#[test]
fn without_anything_there_are_defaults() {
    let config = Config::resolve(Given::default(), Path::new("no-such-file.toml")).unwrap();
    assert_eq!(config.file.value, None);
    assert_eq!(config.store.value.to_string(), "sqlite:./almanac-data/almanac.db");
    assert_eq!(config.data.value, Path::new("./almanac-data"));
    assert_eq!((config.region.value, config.endpoint.value), (None, None));
    assert_eq!(config.listen.value.to_string(), "127.0.0.1:7171");
    assert_eq!(config.listen.origin, Origin::Default);
    assert_eq!(config.log_format.value, LogFormat::Text);
    assert_eq!(config.compact.value, Switch::ON);
}

#[test]
fn the_file_goes_over_defaults_and_keeps_lines() {
    let folder = Folder::with(ALL_KEYS);
    let config = folder.resolve(Given::default()).unwrap();
    let at = |line| Origin::File { path: folder.file(), line };
    assert_eq!(config.store.value.to_string(), "dynamodb:from-file");
    assert_eq!(config.store.origin, at(2));
    assert_eq!(config.data.value, folder.0.path().join("from/file"));
    assert_eq!(config.region.value.as_deref(), Some("eu-west-1"));
    assert_eq!(config.endpoint.origin, at(5));
    assert_eq!(config.listen.value.to_string(), "127.0.0.1:1");
    assert_eq!(config.listen.origin, at(6));
    assert_eq!((config.log_format.value, config.log_format.origin), (LogFormat::Json, at(7)));
}

#[test]
fn what_was_given_goes_over_the_file() {
    let folder = Folder::with(ALL_KEYS);
    let given = Given {
        store: variable(&STORE, "sqlite:elsewhere.db"),
        region: variable(&REGION, "us-east-1"),
        listen: flag(&LISTEN, "[::1]:2"),
        ..Given::default()
    };
    let config = folder.resolve(given).unwrap();
    assert_eq!(config.store.value.to_string(), "sqlite:elsewhere.db");
    assert_eq!(config.store.origin, Origin::Environment("ALMANAC_STORE"));
    assert_eq!(config.region.value.as_deref(), Some("us-east-1"));
    assert_eq!(config.listen.value.to_string(), "[::1]:2");
    assert_eq!(config.listen.origin, Origin::Flag("--listen"));
    assert!(matches!(config.endpoint.origin, Origin::File { .. }));
}

#[test]
fn named_config_file_replaces_the_default() {
    let (folder, other) = (Folder::with(ALL_KEYS), Folder::with("region = 'us-east-1'"));
    let config =
        folder.resolve(Given { config: variable(&CONFIG, other.file()), ..Given::default() }).unwrap();
    assert_eq!(config.file.value, Some(other.file()));
    assert_eq!(config.region.value.as_deref(), Some("us-east-1"));
    assert_eq!(config.endpoint.value, None);
}

#[test]
fn config_file_paths_are_relative_to_its_folder() {
    for (store, expected) in
        [("sqlite:a/b.db", "FOLDER/a/b.db"), ("sqlite:./b.db", "FOLDER/b.db"), ("sqlite:/a/b.db", "/a/b.db")]
    {
        let folder = Folder::with(&format!("store = '{store}'"));
        let expected = expected.replace("FOLDER", folder.0.path().to_str().unwrap());
        let store = folder.resolve(Given::default()).unwrap().store.value;
        assert_eq!(store.to_string(), format!("sqlite:{expected}"));
    }
}

#[test]
fn default_store_follows_the_data_folder() {
    let folder = Folder::with("data = 'kept'");
    let kept = folder.0.path().join("kept/almanac.db");
    let config = folder.resolve(Given::default()).unwrap();
    assert_eq!(config.store.value.file(), Some(&*kept));
    assert_eq!(config.store.origin, Origin::Default);
    let config = folder.resolve(Given { data: flag(&DATA, "typed"), ..Given::default() }).unwrap();
    assert_eq!(config.store.value.to_string(), "sqlite:typed/almanac.db");
}

#[test]
fn the_name_of_a_table_is_short() {
    let name = |store: &str| place::parse(store, &Origin::Default).unwrap().name();
    assert_eq!([name("sqlite:a/b.db"), name("dynamodb:almanac")], ["b.db", "almanac"]);
}

/// Every build has the engine of a file.
#[test]
fn a_build_without_dynamodb_says_so() {
    let parse = |text| place::parse_of(&[&table::sqlite::Sqlite], text, &Origin::Default);
    assert_eq!(parse("sqlite:/a/b.db").unwrap().to_string(), "sqlite:/a/b.db");
    let refusal = parse("dynamodb:almanac").unwrap_err();
    assert!(refusal.contains("is built without DynamoDB; the wheel, the archive and the image have it, and `cargo build --features dynamodb`"), "{refusal}");
    assert_eq!(parse("almanac").unwrap_err(), "`almanac` should be sqlite:PATH");
}

#[test]
fn each_refusal_is_one_line_that_says_where() {
    let mut said = String::new();
    for content in [
        "region = 'eu-west-1'\n\nstor = 'sqlite:a.db'\n",
        "[store]\npath = 'a.db'\n",
        "listen = 7171\n",
        "region = 'eu-west-1'\nregion = 'eu-west-2'\n",
        "data =\n",
        "data = 'a\nb'\n",
        "# none of these\nstore = 'postgres:a'\n",
        "store = 'sqlite:'\n",
        "data = ''\n",
        "listen = 'localhost'\n",
        "log_format = 'xml'\n",
        "compact = 'yes'\n",
        "[oidc]\nissuer = 'https://issuer'\naudience = 'a'\nisuer = 'x'\n",
        "[oidc]\nissuer = 'https://issuer'\n",
        "[oidc]\naudience = 'a'\n",
        "[oidc]\nissuer = 'http://issuer'\naudience = 'a'\n",
        "[oidc]\nissuer = 'https://issuer'\naudience = 7\n",
        "[oidc]\nissuer = 'https://issuer'\naudience = 'a'\nalgorithms = ['RS256', 'HS256']\n",
        "[oidc]\nissuer = 'https://issuer'\naudience = 'a'\ncreate_users = 'yes'\n",
    ] {
        _ = writeln!(said, "{content:?}\n  {}", Folder::with(content).refusal(Given::default()));
    }
    let nothing = Folder::with("");
    let in_file = Folder::with("store = 'dynamodb:almanac'");
    for (folder, given) in [
        (&nothing, Given { config: flag(&CONFIG, "no-such-file.toml"), ..Given::default() }),
        (&nothing, Given { config: variable(&CONFIG, "no-such-file.toml"), ..Given::default() }),
        (&nothing, Given { store: flag(&STORE, "almanac.db"), ..Given::default() }),
        (&nothing, Given { store: variable(&STORE, "dynamo:almanac"), ..Given::default() }),
        (&nothing, Given { store: flag(&STORE, ""), ..Given::default() }),
        (&nothing, Given { store: flag(&STORE, "dynamodb:"), ..Given::default() }),
        (&nothing, Given { store: flag(&STORE, "dynamodb:my table"), ..Given::default() }),
        (&nothing, Given { data: flag(&DATA, ""), ..Given::default() }),
        (&nothing, Given { region: flag(&REGION, "Frankfurt"), ..Given::default() }),
        (&nothing, Given { region: flag(&REGION, ""), ..Given::default() }),
        (&nothing, Given { endpoint: flag(&ENDPOINT, "localhost:8000"), ..Given::default() }),
        (&nothing, Given { endpoint: flag(&ENDPOINT, "http://"), ..Given::default() }),
        (&nothing, Given { endpoint: flag(&ENDPOINT, "http://me:hunter2@localhost"), ..Given::default() }),
        (&nothing, Given { url: flag(&URL, "almanac.example.com"), ..Given::default() }),
        (&nothing, Given { url: flag(&URL, "http://me:hunter2@localhost"), ..Given::default() }),
        (&nothing, Given { url: flag(&URL, "http://localhost?x=1"), ..Given::default() }),
        (&nothing, Given { url: variable(&URL, "http://localhost/#a"), ..Given::default() }),
        (&nothing, Given { url: flag(&URL, "http://[::1]:99999"), ..Given::default() }),
        (&nothing, Given { listen: variable(&LISTEN, "7171"), ..Given::default() }),
        (&in_file, Given { data: flag(&DATA, "here"), ..Given::default() }),
    ] {
        let refusal = folder.refusal(given);
        assert!(!refusal.contains('\n') && !refusal.contains("hunter2"), "{refusal}");
        _ = writeln!(said, "{refusal}");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn an_issuer_has_what_it_needs_and_defaults() {
    let folder =
        Folder::with("[oidc]\nissuer = 'https://issuer'\naudience = ['a', 'b']\ncreate_users = true\n");
    let audience = Setting { value: "c".into(), origin: Origin::Environment("ALMANAC_OIDC_AUDIENCE") };
    let given = Given { oidc: [("oidc.audience", audience)].into(), ..Given::default() };
    let of_file = folder.resolve(Given::default()).unwrap().oidc.settings.unwrap();
    assert_eq!((&*of_file.issuer, of_file.audiences), ("https://issuer", vec!["a".to_owned(), "b".into()]));
    assert!(of_file.creates_users && of_file.jwks_url.is_none());
    assert_eq!((&*of_file.principal_claim, of_file.groups_claim.as_deref()), ("sub", Some("groups")));
    let names: Vec<String> = of_file.algorithms.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["RS256", "ES256", "EdDSA"]);
    let over = folder.resolve(given).unwrap().oidc;
    assert_eq!(over.settings.unwrap().audiences, ["c"]);
    assert_eq!(over.all[1].1.origin, Origin::Environment("ALMANAC_OIDC_AUDIENCE"));
    assert!(Folder::with("").resolve(Given::default()).unwrap().oidc.settings.is_none());
}

#[test]
fn what_the_command_line_said_is_said_again() {
    let folder = Folder::with("listen = '127.0.0.1:1'");
    let given = Given {
        store: flag(&STORE, "sqlite:my data.db"),
        region: variable(&REGION, "eu-west-1"),
        log_format: flag(&LOG_FORMAT, "json"),
        ..Given::default()
    };
    assert_eq!(folder.resolve(given).unwrap().again, " --store 'sqlite:my data.db' --log-format json");
    assert_eq!(folder.resolve(Given::default()).unwrap().again, "");
}

#[cfg(unix)]
#[test]
fn dangling_config_link_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (link, to) = (folder.path().join("almanac.toml"), folder.path().join("gone.toml"));
    std::os::unix::fs::symlink(&to, &link).unwrap();
    let refusal = Config::resolve(Given::default(), &link).unwrap_err().to_string();
    let wanted = format!("the configuration: cannot read {}, a link to {}: ", link.display(), to.display());
    assert!(refusal.starts_with(&wanted), "{refusal}");
}

#[cfg(unix)]
#[test]
fn text_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt as _;
    let store = flag(&STORE, OsString::from_vec(b"sqlite:\xff".to_vec()));
    let refusal = Folder::with("").refusal(Given { store, ..Given::default() });
    assert_eq!(refusal, "--store is not text in UTF-8");
}
