//! The files of an export: an item a line, packed by zstd, in parts of a bounded size.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use event::{Error, Result};
use sha2::{Digest, Sha256};

use super::manifest::{FileOf, NAME, hex};

/// The bytes of lines after which the next file begins.
const FILE_BYTES: u64 = 64 << 20;

/// The ending of the files.
const ENDING: &str = ".ndjson.zst";

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Segments.
    Segments,
    /// All other items.
    Items,
    /// The keys of items that are no longer there, each as an item without attributes.
    Gone,
}

/// In the order in which they are restored.
pub(super) const SORTS: [Sort; 3] = [Sort::Segments, Sort::Items, Sort::Gone];

impl Sort {
    const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Items => "items",
            Self::Gone => "gone",
        }
    }

    /// Whether a file of this sort may be called so.
    pub(super) fn names(self, file: &str) -> bool {
        let number =
            file.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(ENDING));
        number.is_some_and(|number| number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit()))
    }
}

/// Whether a file of an export may be called so.
pub(super) fn is_ours(name: &str) -> bool {
    SORTS.into_iter().any(|sort| sort.names(name))
}

/// The error of a file that cannot be read or written.
pub(crate) fn failed(path: &Path, error: io::Error) -> Error {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => Error::not_found(format!("{shown} is not there")),
        _ => Error::unavailable(format!("{shown} cannot be read or written")).because(error),
    }
}

/// Makes the folder ready for an export: takes away what an interrupted one left.
///
/// # Errors
/// `Invalid`, when there is a whole export in it, or anything else.
pub(super) fn clear(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match &*name {
            NAME => {
                return Err(Error::invalid(format!(
                    "{} holds an export already; name another folder",
                    folder.display()
                )));
            }
            name if is_ours(name) || name == partial_name() => left.push(path),
            _ => {
                let message =
                    format!("{} holds other files, such as {name}; name an empty folder", folder.display());
                return Err(Error::invalid(message));
            }
        }
    }
    left.iter().try_for_each(|path| fs::remove_file(path).map_err(|error| failed(path, error)))
}

fn partial_name() -> String {
    format!("{NAME}.partial")
}

/// Writes the manifest, which makes an export of the folder.
///
/// # Errors
/// When it cannot be written.
pub(super) fn finish(folder: &Path, text: &str) -> Result<()> {
    let partial = folder.join(partial_name());
    let write = || -> io::Result<()> {
        let mut file = create(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, folder.join(NAME))?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| failed(&partial, error))
}

/// A new file that only its owner reads: digests of tokens are in it.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// What hashes and counts the bytes on their way to a file.
struct Hashed {
    file: File,
    bytes: u64,
    digest: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The files of a sort, as they are written.
pub(super) struct Files {
    folder: PathBuf,
    sort: Sort,
    open: Option<Open>,
    done: Vec<FileOf>,
}

struct Open {
    path: PathBuf,
    name: String,
    to: zstd::Encoder<'static, Hashed>,
    lines: u64,
    bytes: u64,
}

impl Files {
    /// None yet.
    pub(super) fn new(folder: &Path, sort: Sort) -> Self {
        Self { folder: folder.to_owned(), sort, open: None, done: Vec::new() }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&mut self, line: &str) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= FILE_BYTES) {
            self.close()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(
                &self.folder,
                format!("{}-{:05}{ENDING}", self.sort.name(), self.done.len() + 1),
            )?),
        };
        let mut write = || -> io::Result<()> {
            open.to.write_all(line.as_bytes())?;
            open.to.write_all(b"\n")
        };
        write().map_err(|error| failed(&open.path, error))?;
        open.lines += 1;
        open.bytes += line.len() as u64;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let file = open.finish()?;
        eprintln!("{}: {} items", file.name, file.items);
        self.done.push(file);
        Ok(())
    }

    /// The files, all of them on the disk.
    ///
    /// # Errors
    /// When the last one cannot be written.
    pub(super) fn finish(mut self) -> Result<Vec<FileOf>> {
        self.close()?;
        Ok(self.done)
    }
}

impl Open {
    fn new(folder: &Path, name: String) -> Result<Self> {
        let path = folder.join(&name);
        let file = create(&path).map_err(|error| failed(&path, error))?;
        let hashed = Hashed { file, bytes: 0, digest: Sha256::new() };
        let to = zstd::Encoder::new(hashed, 1).map_err(|error| failed(&path, error))?;
        Ok(Self { path, name, to, lines: 0, bytes: 0 })
    }

    fn finish(self) -> Result<FileOf> {
        let finish = || -> io::Result<FileOf> {
            let hashed = self.to.finish()?;
            hashed.file.sync_all()?;
            let sha256 = hex(&hashed.digest.finalize());
            Ok(FileOf { name: self.name, items: self.lines, bytes: hashed.bytes, sha256 })
        };
        finish().map_err(|error| failed(&self.path, error))
    }
}

/// The SHA-256 of the bytes of a file, in hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let mut from = File::open(path).map_err(|error| failed(path, error))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer).map_err(|error| failed(path, error))? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

/// Looks whether a file is as the manifest says.
///
/// # Errors
/// `Corrupt`, when it is not; when it cannot be read.
pub(super) fn check(folder: &Path, file: &FileOf) -> Result<()> {
    let path = folder.join(&file.name);
    match sha256(&path)? == file.sha256 {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "{} is not the file that was exported: its SHA-256 differs",
            path.display()
        ))),
    }
}

/// The lines of a file.
///
/// # Errors
/// When it cannot be read.
pub(super) fn lines(folder: &Path, file: &FileOf) -> Result<impl Iterator<Item = Result<String>>> {
    let path = folder.join(&file.name);
    let from = File::open(&path).and_then(zstd::Decoder::new).map_err(|error| failed(&path, error))?;
    Ok(BufReader::new(from).lines().map(move |line| line.map_err(|error| failed(&path, error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        assert!(is_ours("segments-00001.ndjson.zst") && is_ours("items-100000.ndjson.zst"));
        assert!(Sort::Gone.names("gone-00001.ndjson.zst") && !Sort::Items.names("gone-00001.ndjson.zst"));
        for name in [
            "../items-00001.ndjson.zst",
            "items-1.ndjson.zst",
            "items-0000a.ndjson.zst",
            "others-00001.ndjson.zst",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }

    #[test]
    fn what_was_interrupted_is_taken_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("items-00001.ndjson.zst"), "half").unwrap();
        fs::write(at("manifest.json.partial"), "half").unwrap();
        clear(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(at("thesis.tex"), "mine").unwrap();
        assert!(clear(folder.path()).unwrap_err().to_string().contains("thesis.tex"));
        fs::remove_file(at("thesis.tex")).unwrap();
        finish(folder.path(), "{}").unwrap();
        assert!(clear(folder.path()).unwrap_err().to_string().contains("holds an export already"));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_changed_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(folder.path(), Sort::Items);
        files.add("one").unwrap();
        files.add("two").unwrap();
        let files = files.finish().unwrap();
        assert_eq!(files.len(), 1);
        check(folder.path(), &files[0]).unwrap();
        let read: Result<Vec<String>> = lines(folder.path(), &files[0]).unwrap().collect();
        assert_eq!(read.unwrap(), ["one", "two"]);
        let path = folder.path().join(&files[0].name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(check(folder.path(), &files[0]).unwrap_err().to_string().contains("its SHA-256 differs"));
    }
}
