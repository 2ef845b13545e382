//! The dashboard: pages that a browser runs, embedded in the binary. They use the HTTP API and nothing else.
//!
//! The files in `assets` are plain ES modules, one style sheet and a picture, served unchanged: there is no build step. [`FILES`]
//! lists them and the version, and [`http::routes`] serves them.
//!
//! ```
//! let names: Vec<&str> = almanac_dashboard::FILES.iter().map(|file| file.name).collect();
//! assert!(names.contains(&"main.js") && names.contains(&"style.css"));
//! assert!(almanac_dashboard::PAGE.text.contains("/dashboard/main.js"));
//! ```
//!
//! It knows nothing of the domain: the pages request all that they show.

pub mod http;

/// A file of the dashboard.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its name below `/dashboard/`.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// The files of `assets`, by name, and the version, which scripts read as a module.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(File { name: $name, text: include_str!(concat!("../assets/", $name)) },)+ File {
            name: "version.js",
            text: concat!("export const VERSION = '", env!("CARGO_PKG_VERSION"), "';\n"),
        }]
    };
}

/// The page that loads all other files.
pub const PAGE: File = File { name: "index.html", text: include_str!("../assets/index.html") };

/// The files that the page loads.
pub const FILES: [File; 22] = files![
    "alerts.js",
    "api.js",
    "catalog.js",
    "chart.js",
    "common.js",
    "compare.js",
    "day.js",
    "dom.js",
    "drift.js",
    "icon.svg",
    "live.js",
    "main.js",
    "metrics.js",
    "operate.js",
    "overview.js",
    "review.js",
    "runs.js",
    "share.js",
    "sql.js",
    "style.css",
    "words.js",
];

impl File {
    /// Returns its media type, by the ending of its name.
    pub fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Maximum bytes that a browser loads for all pages together. Compressed they are less than a third of that, and 150 KB is
    /// too much.
    const MAX_BYTES: usize = 240_000;

    #[test]
    fn every_file_is_served_and_all_are_small() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let there =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let there = there.chain(["version.js".to_owned()]);
        let served = FILES.iter().chain([&PAGE]).map(|file| file.name.to_owned());
        assert_eq!(served.collect::<BTreeSet<_>>(), there.collect::<BTreeSet<_>>());
        let bytes: usize = FILES.iter().chain([&PAGE]).map(|file| file.text.len()).sum();
        assert!(bytes < MAX_BYTES, "{bytes} bytes");
    }

    #[test]
    fn dashboard_files_load_nothing_external_nor_write_html() {
        let namespace = "http://www.w3.org/2000/svg";
        for file in FILES.iter().chain([&PAGE]) {
            let text = file.text.replace(namespace, "");
            for word in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(word), "{} has `{word}`", file.name);
            }
        }
    }

    /// A module must exist for each import.
    #[test]
    fn what_is_imported_is_there() {
        let names: BTreeSet<&str> = FILES.iter().map(|file| file.name).collect();
        let mut imports = 0;
        for file in FILES.iter().filter(|file| file.name.ends_with(".js")) {
            for part in file.text.split("'./").skip(1) {
                let name = part.split('\'').next().unwrap();
                assert!(names.contains(name), "{} imports {name}", file.name);
                imports += 1;
            }
        }
        assert!(imports > 20, "only {imports} imports were found");
    }
}
