//! Storage of the files of an export: a folder, or objects of S3. For S3, each file is made on the local disk, put when it is
//! whole, and fetched as a whole to be read; the local file has no name, so it leaves no trace.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use event::{Error, Result};
use sha2::{Digest, Sha256};

use super::{
    files::is_ours,
    manifest::{FileOf, NAME, hex},
};
use crate::depot::{Depot, Objects};

/// Maximum bytes of a line: a few times the largest item of any engine, whose bytes are letters in it.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Files of an export.
#[derive(Clone, Debug)]
pub(super) enum Shelf {
    Folder(PathBuf),
    Objects(Objects),
}

impl Shelf {
    /// Opens a folder or prefix. A folder need not exist.
    ///
    /// # Errors
    /// Errors of [`Objects::open`].
    pub(super) async fn open(depot: &Depot, region: Option<&str>) -> Result<Self> {
        Ok(match depot {
            Depot::Folder(folder) => Self::Folder(folder.clone()),
            Depot::S3(address) => Self::Objects(Objects::open(address, region).await?),
        })
    }

    /// Place of a file, for errors.
    fn at(&self, name: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join(name).display().to_string(),
            Self::Objects(objects) => objects.address().of(name),
        }
    }

    /// Prepares it for an export: removes the files of an interrupted one. A folder is locked for this export as long as the
    /// returned file is kept; objects have no lock, and [`Shelf::finish`] finds files of another export.
    ///
    /// # Errors
    /// `Invalid`, when there is a whole export, or any other file; `Unavailable`, when another export writes to the folder.
    pub(super) async fn clear(&self) -> Result<Option<File>> {
        match self {
            Self::Folder(folder) => {
                fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
                let lock = lock(folder)?;
                let mut names = Vec::new();
                for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
                    let entry = entry.map_err(|error| failed(folder, error))?;
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                self.check_ours(&names, "folder")?;
                let mut left = names.iter().map(|name| folder.join(name));
                left.try_for_each(|path| fs::remove_file(&path).map_err(|error| failed(&path, error)))?;
                Ok(lock)
            }
            Self::Objects(objects) => {
                let found = objects.list("").await?;
                let names: Vec<String> = found.files.into_iter().map(|(name, _)| name).collect();
                self.check_ours(&[found.folders, names.clone()].concat(), "prefix")?;
                objects.delete(&names).await.map(|()| None)
            }
        }
    }

    /// Refuses files that no interrupted export has left.
    fn check_ours(&self, names: &[String], what: &str) -> Result<()> {
        if names.iter().any(|name| name == NAME) {
            return Err(Error::invalid(format!("{self} holds an export already; name another {what}")));
        }
        match names.iter().find(|name| !is_ours(name) && **name != partial_name()) {
            Some(name) => {
                Err(Error::invalid(format!("{self} holds other files, such as {name}; name an empty {what}")))
            }
            None => Ok(()),
        }
    }

    /// Makes a new file to write to, readable by its owner alone: it contains digests of tokens.
    ///
    /// # Errors
    /// A file that cannot be made, or exists.
    pub(super) fn create(&self, name: &str) -> Result<File> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                create(&path).map_err(|error| failed(&path, error))
            }
            Self::Objects(_) => tempfile::tempfile().map_err(|error| failed(&std::env::temp_dir(), error)),
        }
    }

    /// Error of a new file.
    pub(super) fn unwritten(&self, name: &str, error: io::Error) -> Error {
        match self {
            Self::Folder(folder) => failed(&folder.join(name), error),
            Self::Objects(_) => failed(&std::env::temp_dir(), error),
        }
    }

    /// Keeps a complete file.
    ///
    /// # Errors
    /// A file that cannot be written; errors of S3.
    pub(super) async fn keep(&self, name: &str, file: &File) -> Result<()> {
        match self {
            Self::Folder(_) => file.sync_all().map_err(|error| self.unwritten(name, error)),
            Self::Objects(objects) => objects.put(name, file).await,
        }
    }

    /// Writes the manifest, which completes the export.
    ///
    /// # Errors
    /// A manifest that cannot be written; `Conflict`, when another process wrote to the prefix meanwhile; errors of S3.
    pub(super) async fn finish(&self, text: &str, files: &[FileOf]) -> Result<()> {
        match self {
            Self::Folder(folder) => finish(folder, text),
            Self::Objects(objects) => {
                let mut found = objects.list("").await?;
                let mut expected: Vec<_> = files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
                found.files.sort();
                expected.sort();
                if found.files == expected && objects.put_new(NAME, text).await? {
                    return Ok(());
                }
                Err(Error::conflict(format!(
                    "{self} is not as it was written: something else, such as another export, wrote to it meanwhile; name another prefix"
                )))
            }
        }
    }

    /// Reads the text of the manifest.
    ///
    /// # Errors
    /// A manifest that cannot be read.
    pub(super) async fn manifest(&self) -> Result<String> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(NAME);
                fs::read_to_string(&path).map_err(|error| failed(&path, error))
            }
            Self::Objects(objects) => objects.read(NAME).await,
        }
    }

    /// Checks that a file matches the manifest.
    ///
    /// # Errors
    /// `Corrupt`, when it does not; a file that cannot be read.
    pub(super) async fn check(&self, file: &FileOf) -> Result<()> {
        let digest = match self {
            Self::Folder(folder) => {
                let path = folder.join(&file.name);
                File::open(&path).and_then(sha256).map_err(|error| failed(&path, error))?
            }
            Self::Objects(objects) => fetch(objects, file, |_| Ok(())).await?,
        };
        match digest == file.sha256 {
            true => Ok(()),
            false => Err(Error::corrupt(format!(
                "{} is not the file that was exported: its SHA-256 differs",
                self.at(&file.name)
            ))),
        }
    }

    /// Reads the lines of a file.
    ///
    /// # Errors
    /// A file that cannot be read; in S3, `Corrupt`, when it differs from the manifest.
    pub(super) async fn lines(&self, file: &FileOf) -> Result<impl Iterator<Item = Result<String>> + use<>> {
        let (path, from) = match self {
            Self::Folder(folder) => {
                let path = folder.join(&file.name);
                let from = File::open(&path).map_err(|error| failed(&path, error))?;
                (path, from)
            }
            Self::Objects(objects) => {
                // The object may have changed since its check.
                let mut local = self.create(&file.name)?;
                let unwritten = |error| self.unwritten(&file.name, error);
                let digest = fetch(objects, file, |bytes| local.write_all(bytes).map_err(unwritten)).await?;
                if digest != file.sha256 {
                    return Err(Error::corrupt(format!(
                        "{} has changed since it was checked",
                        self.at(&file.name)
                    )));
                }
                local.seek(SeekFrom::Start(0)).map_err(unwritten)?;
                (PathBuf::from(self.at(&file.name)), local)
            }
        };
        let from = zstd::Decoder::new(from).map_err(|error| failed(&path, error))?;
        Ok(lines(BufReader::new(from), path))
    }
}

impl fmt::Display for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Objects(objects) => objects.address().fmt(f),
        }
    }
}

/// Lines of a file, one in memory at a time: none is longer than that of the largest item.
fn lines(mut from: impl BufRead, path: PathBuf) -> impl Iterator<Item = Result<String>> {
    let mut next = move || {
        let mut line = Vec::new();
        let read = from.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line);
        match read.map_err(|error| failed(&path, error)) {
            Ok(0) => return Ok(None),
            Ok(_) if line.len() as u64 > MAX_LINE_BYTES => {
                let shown = path.display();
                return Err(Error::corrupt(format!(
                    "{shown} has a line of more than {MAX_LINE_BYTES} bytes; no item is so large"
                )));
            }
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let wrong = |_| Error::corrupt(format!("{} is not text in UTF-8", path.display()));
        String::from_utf8(line).map(Some).map_err(wrong)
    };
    let mut has_failed = false;
    std::iter::from_fn(move || {
        let line = if has_failed { None } else { next().transpose() };
        has_failed = matches!(line, Some(Err(_)));
        line
    })
}

/// Gives the bytes of an object, no more than the manifest states, and returns their SHA-256.
async fn fetch(objects: &Objects, file: &FileOf, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<String> {
    let (mut digest, mut left) = (Sha256::new(), file.bytes);
    let take = |bytes: &[u8]| {
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let at = objects.address().of(&file.name);
            Error::corrupt(format!("{at} is not the file that was exported: it is longer"))
        })?;
        digest.update(bytes);
        to(bytes)
    };
    objects.fetch(&file.name, take).await?;
    Ok(hex(&digest.finalize()))
}

fn partial_name() -> String {
    format!("{NAME}.partial")
}

/// Locks the folder itself, which leaves no file in it, until the returned file is closed. `None`, if the file system cannot lock
/// folders.
fn lock(folder: &Path) -> Result<Option<File>> {
    let opened = File::open(folder).map_err(|error| failed(folder, error))?;
    match opened.try_lock() {
        Ok(()) => Ok(Some(opened)),
        Err(TryLockError::WouldBlock) => Err(Error::unavailable(format!(
            "another `almanac export` writes to {}; wait until it is done, or name another folder",
            folder.display()
        ))),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Writes the manifest into a folder.
fn finish(folder: &Path, text: &str) -> Result<()> {
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

/// Makes a new file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// SHA-256 of the bytes read, in hexadecimal.
///
/// # Errors
/// A failed read.
pub(crate) fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

/// Error of a file that cannot be read or written.
pub(crate) fn failed(path: &Path, error: io::Error) -> Error {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("{shown} is not there")),
        _ => Error::unavailable(format!("{shown} cannot be read or written")).because(error),
    }
}

#[cfg(test)]
mod tests;
