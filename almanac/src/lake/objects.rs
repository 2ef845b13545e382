//! A lake in S3. It has no lock: a commit is put only if its number is free, so writers do not collide.

use std::fs::File;

use async_trait::async_trait;
use event::{Error, Result};

use super::store::Store;
use crate::depot::Objects;

#[async_trait]
impl Store for Objects {
    async fn list(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.list(folder).await?.files.into_iter().map(|(name, _)| name).collect())
    }

    async fn read(&self, path: &str) -> Result<String> {
        self.read(path).await
    }

    async fn put_new(&self, path: &str, text: &str) -> Result<bool> {
        self.put_new(path, text).await
    }

    fn draft(&self) -> Result<File> {
        tempfile::tempfile()
            .map_err(|error| Error::unavailable("a temporary file cannot be made").because(error))
    }

    async fn put_draft(&self, path: &str, draft: &File) -> Result<()> {
        self.put(path, draft).await
    }
}
