//! Files under the given paths of files and folders.

use std::path::{Path, PathBuf};

use event::Error;
use ingest::file::is_readable;

/// Maximum files of one import.
const MAX_FILES: usize = 100_000;

/// Returns the files, each folder's in the order of their names, and their total bytes. In a folder, and in the folders within
/// it, only files with the ending of a format count.
///
/// # Errors
/// `NotFound`, for a path that does not exist; `Invalid`, when there is no file.
pub(super) fn files(paths: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, u64)> {
    let mut files = Vec::new();
    for path in paths {
        let is_folder = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.is_dir();
        if is_folder { add_folder(path, &mut files)? } else { files.push(path.clone()) }
    }
    if files.is_empty() {
        return Err(Error::invalid("there is no file to import in the given folders").into());
    }
    let mut bytes = 0;
    for file in &files {
        bytes += std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    }
    Ok((files, bytes))
}

fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(folder, &error))?;
    paths.sort();
    for path in paths {
        // A link may lead in circles; its target can be named itself.
        let kind = std::fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?.file_type();
        if kind.is_dir() {
            add_folder(&path, files)?;
        } else if kind.is_file() && is_readable(&path) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(Error::invalid(format!("there are more than {MAX_FILES} files")).into());
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot read {}: {error}", path.display());
    if error.kind() == std::io::ErrorKind::NotFound {
        Error::not_found(message)
    } else {
        Error::invalid(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_their_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("b")).unwrap();
        for name in ["c.csv", "a.ndjson.gz", "notes.txt", "b/x.parquet"] {
            std::fs::write(path(name), "12345").unwrap();
        }
        let (found, bytes) = files(&[dir.path().to_owned()]).unwrap();
        assert_eq!(found, [path("a.ndjson.gz"), path("b/x.parquet"), path("c.csv")]);
        assert_eq!(bytes, 15);
        assert_eq!(files(&[path("notes.txt")]).unwrap().0, [path("notes.txt")], "named, so meant");
        assert!(files(&[path("b/y")]).unwrap_err().to_string().contains("b/y"));
    }
}
