//! `almanac demo --open`: the demo ends on its dashboard.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::support::{Place, almanac, run};

const DEMO: [&str; 4] = ["demo", "--until", "2013-04-02", "--open"];

/// The demo with nothing on its path but `folder`, and the address that it says.
fn opened(place: &Place, folder: &Path) -> (Child, String) {
    let mut command = almanac(place, &[&DEMO[..], &["--listen", "127.0.0.1:0"]].concat());
    command.env("PATH", folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.starts_with("The dashboard is at ")).expect("it says where it is");
    std::thread::spawn(move || lines.for_each(drop));
    let url = said.split_whitespace().nth(4).unwrap().to_owned();
    (process, url)
}

/// Asks it to stop; what it wrote beside its answer.
fn stop(mut process: Child) -> String {
    let kill = format!("kill -TERM {}", process.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(process.wait().unwrap().success(), "{said}");
    said
}

#[test]
fn demo_ends_by_opening_its_dashboard() {
    let (place, folder) = (Place::sqlite(), tempfile::tempdir().unwrap());
    let asked = folder.path().join("asked");
    for name in ["xdg-open", "open"] {
        let opener = folder.path().join(name);
        fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > '{}'\n", asked.display())).unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (process, url) = opened(&place, folder.path());
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/#/w/flights/nyc/overview"), "{url}");
    let page = ureq::get(&url).call().unwrap().into_body().read_to_string().unwrap();
    assert!(page.contains("/dashboard/main.js"), "{page}");
    let mut looks = 0;
    while !fs::read_to_string(&asked).is_ok_and(|text| text.trim() == url) && looks < 200 {
        sleep(Duration::from_millis(50));
        looks += 1;
    }
    assert_eq!(fs::read_to_string(&asked).unwrap().trim(), url);
    assert!(!stop(process).contains("No browser"));

    // Without a browser it says so, and serves all the same.
    let nothing = tempfile::tempdir().unwrap();
    let (process, url) = opened(&place, nothing.path());
    assert_eq!(ureq::get(&url).call().unwrap().status(), 200);
    sleep(Duration::from_secs(1));
    assert!(stop(process).contains("No browser could be opened; open that address yourself."));
}

#[test]
fn unusable_listen_address_is_reported_before_work() {
    let place = Place::sqlite();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (listen, says) in [(&*address, "cannot listen on"), ("0.0.0.0:0", "others could reach")] {
        let ended = run(&place, &[&DEMO[..], &["--listen", listen]].concat());
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.contains(says), "{said}");
        assert!(!String::from_utf8(ended.stdout).unwrap().contains("appended"));
    }
}
