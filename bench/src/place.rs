//! Locations: the working folder, the measured binary, the interpreters of the peers.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// Folders and programs of a run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Root of the repository.
    pub root: PathBuf,
    /// Working folder: data of every kind, deleted and made again with each run.
    pub work: PathBuf,
    /// Binary `almanac`, of the same build as this program.
    pub almanac: PathBuf,
    /// Virtual environment of the peers.
    pub venv: PathBuf,
}

impl Place {
    /// Finds the place of this process: the binary beside its own, the working folder in the target folder.
    ///
    /// # Errors
    /// Fails if the binary is missing.
    pub fn find(venv: &Path) -> anyhow::Result<Self> {
        let own = env::current_exe().context("cannot tell where this program is")?;
        let folder = own.parent().context("this program is in no folder")?;
        let almanac = folder.join("almanac");
        anyhow::ensure!(almanac.exists(), "{} is missing; bench/run builds it", almanac.display());
        let work = folder.parent().unwrap_or(folder).join("bench").join("work");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Self { root, work, almanac, venv: venv.to_owned() })
    }

    /// Creates an empty folder in the working folder, replacing an existing one.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.work.join(name);
        remove(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

/// Removes a folder of the working folder, if it exists.
///
/// # Errors
/// Fails if it cannot be removed.
pub fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the number of bytes of all files in a folder and below.
///
/// # Errors
/// Fails if it cannot be read.
pub fn bytes_of(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { bytes_of(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}
