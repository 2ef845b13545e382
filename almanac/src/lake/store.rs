//! Storage of a lake. The log of a table needs only three operations, which folders and object stores share: list, read, and put
//! if absent.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use event::{Error, Result};

use crate::moved::failed;

/// Storage of a lake. Paths are relative to its root, with slashes.
#[async_trait]
pub(super) trait Store: Send + Sync {
    /// Lists the names in a folder; empty if there is no such folder.
    async fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Reads the text of a file.
    async fn read(&self, path: &str) -> Result<String>;

    /// Puts a file as a whole, if there is none. Returns true if it was put.
    async fn put_new(&self, path: &str, text: &str) -> Result<bool>;

    /// Returns an empty local file for the next file of data.
    ///
    /// # Errors
    /// A failure to make the file.
    fn draft(&self) -> Result<File>;

    /// Puts the finished file of data as a whole. An existing file has the same bytes, since its name contains its digest.
    async fn put_draft(&self, path: &str, draft: &File) -> Result<()>;
}

/// Local folder.
pub(super) struct Folder {
    root: PathBuf,
    /// Lock for a writer, held while the folder is open.
    lock: Option<File>,
}

/// Names of the writer's own files. Readers of tables ignore names that begin with a dot.
const LOCK: &str = ".almanac.lock";
const DRAFT: &str = ".draft.parquet";
const COMMIT: &str = ".draft.json";

impl Folder {
    /// Opens a folder for one writer, and makes it if it does not exist.
    ///
    /// # Errors
    /// `Unavailable`, when another process has it open.
    pub(super) fn open(root: &Path) -> Result<Self> {
        make(root).map_err(|error| failed(root, error))?;
        let path = root.join(LOCK);
        let lock = File::create(&path).map_err(|error| failed(&path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { root: root.to_owned(), lock: Some(lock) }),
            Err(fs::TryLockError::WouldBlock) => {
                let message =
                    format!("another `almanac lake sync` works in {}; wait until it is done", root.display());
                Err(Error::unavailable(message))
            }
            Err(fs::TryLockError::Error(error)) => Err(failed(&path, error)),
        }
    }

    /// Makes a read-only view of a folder, which need not exist.
    pub(super) fn look(root: &Path) -> Self {
        Self { root: root.to_owned(), lock: None }
    }

    /// Path of a file, whose folder is made.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let place = self.root.join(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        Ok(place)
    }

    /// Makes the name of a file durable, and the names of the folders on the way to it: they may be new, or have been made by a
    /// killed process.
    fn keep(&self, file: &Path) -> io::Result<()> {
        let above = file.ancestors().skip(1);
        above.take_while(|folder| folder.starts_with(&self.root)).try_for_each(sync)
    }
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder with its missing parents, and makes their names durable.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // The parent of a relative path of one name is the working directory.
    let above =
        folder.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    if let Some(above) = above {
        make(above)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    above.map_or(Ok(()), sync)
}

#[async_trait]
impl Store for Folder {
    async fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.root.join(folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed(&path, error))?,
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        entries.map(|entry| name(entry).map_err(|error| failed(&path, error))).collect()
    }

    async fn read(&self, path: &str) -> Result<String> {
        let path = self.root.join(path);
        fs::read_to_string(&path).map_err(|error| failed(&path, error))
    }

    async fn put_new(&self, path: &str, text: &str) -> Result<bool> {
        let (place, draft) = (self.place(path)?, self.root.join(COMMIT));
        let put = || {
            // A killed process may have left it as another name of its last commit: it is removed, never written to.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::create_new(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            // A link shows a whole file, and fails if the name exists.
            match fs::hard_link(&draft, &place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
                made => made.and_then(|()| self.keep(&place)).map(|()| true),
            }
        };
        let put = put().map_err(|error| failed(&place, error));
        _ = fs::remove_file(&draft);
        put
    }

    fn draft(&self) -> Result<File> {
        let path = self.root.join(DRAFT);
        let draft = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        draft.map_err(|error| failed(&path, error))
    }

    async fn put_draft(&self, path: &str, draft: &File) -> Result<()> {
        let place = self.place(path)?;
        let put = || {
            draft.sync_all()?;
            fs::rename(self.root.join(DRAFT), &place)?;
            self.keep(&place)
        };
        put().map_err(|error| failed(&place, error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // A killed process leaves it; the next one overwrites it.
            _ = fs::remove_file(self.root.join(DRAFT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lake_files_are_put_once_by_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("new/lake");
        let store = Folder::open(&root).unwrap();
        assert!(Folder::open(&root).err().unwrap().to_string().contains("another `almanac lake sync` works"));
        assert_eq!(store.list("t/_delta_log").await.unwrap(), Vec::<String>::new());
        assert!(store.put_new("t/_delta_log/0.json", "one").await.unwrap());
        assert!(!store.put_new("t/_delta_log/0.json", "two").await.unwrap());
        assert_eq!(store.read("t/_delta_log/0.json").await.unwrap(), "one");
        assert_eq!(store.list("t/_delta_log").await.unwrap(), ["0.json"]);
        // A process killed just after its commit left a second name of it.
        fs::hard_link(root.join("t/_delta_log/0.json"), root.join(COMMIT)).unwrap();
        assert!(store.put_new("t/_delta_log/1.json", "two").await.unwrap());
        assert_eq!(store.read("t/_delta_log/0.json").await.unwrap(), "one");
        fs::remove_file(root.join("t/_delta_log/1.json")).unwrap();
        fs::write(root.join(DRAFT), "left by a process that was killed").unwrap();
        let mut draft = store.draft().unwrap();
        draft.write_all(b"rows").unwrap();
        store.put_draft("t/day=2026-06-01/a.parquet", &draft).await.unwrap();
        assert_eq!(store.read("t/day=2026-06-01/a.parquet").await.unwrap(), "rows");
        drop(store);
        assert!(Folder::open(&root).is_ok());
        fs::write(folder.path().join("file"), "").unwrap();
        for no_folder in ["file", "file/lake"] {
            assert!(Folder::open(&folder.path().join(no_folder)).is_err(), "{no_folder}");
        }
    }
}
