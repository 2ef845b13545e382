//! Temporary file of the scores, or errors, of a large day: metrics of their order need all of them.

use std::{io, path::PathBuf};

use event::{Error, Result};
use fold::{evaluation::Evaluator, runs::Runs};

use crate::{Reading, blocking, spill::failed};

/// Number of bytes of scores and errors that are held in memory.
pub(crate) const SCORE_BYTES: usize = 64 * 1024 * 1024;

/// The file, once there is one.
#[derive(Debug, Default)]
pub(crate) struct ScoreFile(Option<(PathBuf, Runs)>);

impl ScoreFile {
    /// Moves the scores of an evaluator to the file.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written.
    pub(crate) async fn spill(
        &mut self,
        reading: &dyn Reading,
        mut evaluator: Evaluator,
    ) -> Result<Evaluator> {
        let (known, folder) = (self.0.take(), reading.table().scratch());
        let (runs, evaluator) = blocking(move || {
            let (folder, mut runs) = match known {
                Some(known) => known,
                None => {
                    let file = tempfile::tempfile_in(&folder).map_err(|error| failed(&folder, error))?;
                    (folder, Runs::new(Box::new(file)))
                }
            };
            evaluator.spill(&mut runs).map_err(|error| failed(&folder, error))?;
            Ok::<_, Error>(((folder, runs), evaluator))
        })
        .await??;
        self.0 = Some(runs);
        Ok(evaluator)
    }

    /// Computes the metrics of the scores in the file.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read.
    pub(crate) fn settle(&mut self, evaluator: &mut Evaluator) -> Result<()> {
        let Some((folder, runs)) = &mut self.0 else { return Ok(()) };
        evaluator.settle(runs).map_err(|error: io::Error| failed(folder, error))
    }
}
