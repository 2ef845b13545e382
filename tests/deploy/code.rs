//! Parsed files of `terraform/`, with the line of everything in them.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use hcl_edit::{
    Span,
    expr::Expression,
    parser::parse_body,
    structure::{Block, Body},
};

/// Fault, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// One file.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) body: Body,
}

impl File {
    fn parse(path: String, text: String) -> Result<Self, Fault> {
        match parse_body(&text) {
            Ok(body) => Ok(Self { path, text, body }),
            Err(error) => {
                Err(Fault { path, line: error.location().line(), what: error.message().trim().to_owned() })
            }
        }
    }

    /// Fault at `node`.
    pub(crate) fn fault(&self, node: &dyn Span, what: impl Into<String>) -> Fault {
        let start = node.span().map_or(0, |span| span.start);
        let line = 1 + self.text[..start].matches('\n').count();
        Fault { path: self.path.clone(), line, what: what.into() }
    }
}

/// Files of one folder.
#[derive(Debug)]
pub(crate) struct Module {
    /// Path of the folder from the root of the repository.
    pub(crate) path: String,
    pub(crate) files: Vec<File>,
}

impl Module {
    /// All blocks of a kind, such as `variable`.
    pub(crate) fn blocks<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a File, &'a Block)> {
        self.files.iter().flat_map(move |file| file.body.get_blocks(kind).map(move |block| (file, block)))
    }

    /// Block of a kind with these labels.
    pub(crate) fn block<'a>(&'a self, kind: &'a str, labels: &[&str]) -> Option<(&'a File, &'a Block)> {
        self.blocks(kind).find(|(_, block)| block.has_exact_labels(labels))
    }

    /// Value of a local.
    pub(crate) fn local(&self, name: &str) -> Option<(&File, &Expression)> {
        self.blocks("locals").find_map(|(file, block)| Some((file, &block.body.get_attribute(name)?.value)))
    }
}

/// All of `terraform/`.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) modules: Vec<Module>,
}

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are one level down").to_owned()
}

/// Texts of all files of `terraform/`, by path.
pub(crate) fn texts() -> BTreeMap<String, String> {
    fn collect(folder: &Path, into: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !is_hidden {
                collect(&path, into);
            } else if path.extension().is_some_and(|ending| ending == "tf") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                into.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut texts = BTreeMap::new();
    collect(&root().join("terraform"), &mut texts);
    texts
}

impl Project {
    /// Reads the files of the repository.
    pub(crate) fn read() -> Self {
        Self::parse(texts()).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Parses these files.
    ///
    /// # Errors
    /// The first fault in a file.
    pub(crate) fn parse(texts: BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut folders = BTreeMap::<String, Vec<File>>::new();
        for (path, text) in texts {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            folders.entry(folder).or_default().push(File::parse(path, text)?);
        }
        let modules = folders.into_iter().map(|(path, files)| Module { path, files }).collect();
        Ok(Self { modules })
    }

    /// Module in a folder.
    pub(crate) fn module(&self, path: &str) -> &Module {
        let found = self.modules.iter().find(|module| module.path == path);
        found.unwrap_or_else(|| panic!("there is no module {path}"))
    }

    /// Module that deploys Almanac.
    pub(crate) fn almanac(&self) -> &Module {
        self.module("terraform/modules/almanac")
    }
}

/// Label of a block at `at`.
pub(crate) fn label(block: &Block, at: usize) -> &str {
    block.labels.get(at).map_or("", |label| label.as_str())
}
