use std::{
    fmt,
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use futures::{future::join_all, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result as Answer, memory::InMemory, path::Path,
};

use super::*;

fn address() -> Address {
    Address::parse("mine/out").unwrap()
}

/// A store that puts or drops a file on demand, and answers neither.
#[derive(Debug, Default)]
struct Deaf {
    store: InMemory,
    puts: AtomicBool,
}

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deaf")
    }
}

#[async_trait]
impl ObjectStore for Deaf {
    async fn put_opts(&self, key: &Path, payload: PutPayload, options: PutOptions) -> Answer<PutResult> {
        if self.puts.load(Ordering::Relaxed) {
            self.store.put_opts(key, payload, options).await?;
        }
        Err(Fault::Generic { store: "S3", source: "no answer".into() })
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        options: PutMultipartOptions,
    ) -> Answer<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(key, options).await
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Answer<GetResult> {
        self.store.get_opts(key, options).await
    }

    fn delete_stream(&self, keys: BoxStream<'static, Answer<Path>>) -> BoxStream<'static, Answer<Path>> {
        self.store.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Answer<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Answer<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Answer<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_put_a_text_one_does() {
    let objects = Objects::of(Arc::new(InMemory::new()), address());
    let texts: Vec<String> = (0..16).map(|number| format!("text {number}")).collect();
    let put = texts.iter().map(|text| objects.put_new("t/_delta_log/0.json", text));
    let put = join_all(put).await.into_iter().map(Result::unwrap);
    let won: Vec<&String> = texts.iter().zip(put).filter(|(_, won)| *won).map(|(text, _)| text).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(&objects.read("t/_delta_log/0.json").await.unwrap(), won[0]);
    // A second put of the same text counts as put.
    assert!(objects.put_new("t/_delta_log/0.json", won[0]).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn unanswered_put_is_settled_by_reading() {
    let store = Arc::new(Deaf::default());
    let objects = Objects::of(store.clone(), address());
    let error = objects.put_new("a", "one").await.unwrap_err();
    assert!(error.may_pass() && error.to_string().contains("s3://mine/out/a"), "{error}");
    store.puts.store(true, Ordering::Relaxed);
    assert!(objects.put_new("a", "one").await.unwrap());
    assert!(!objects.put_new("a", "two").await.unwrap());
    assert_eq!(objects.read("a").await.unwrap(), "one");
}

#[tokio::test]
async fn multipart_upload_reads_back_unchanged() {
    let objects = Objects::of(Arc::new(InMemory::new()), address());
    // Files of one part, of whole parts, and of whole parts and a bit.
    for bytes in [0, 1, PART_BYTES, PART_BYTES + 1, 6 * PART_BYTES, 6 * PART_BYTES + 7] {
        let text: Vec<u8> = (0..bytes).map(|at| (at * 7 / 5) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&text).unwrap();
        objects.put("a/b", &file).await.unwrap();
        let mut found = Vec::new();
        let take = |piece: &[u8]| {
            found.extend_from_slice(piece);
            Ok(())
        };
        objects.fetch("a/b", take).await.unwrap();
        assert!(found == text, "{bytes} bytes");
        assert_eq!(objects.list("a").await.unwrap().files, [("b".to_owned(), bytes)]);
    }
    assert_eq!(objects.list("").await.unwrap().folders, ["a"]);
    objects.delete(&["a/b".to_owned()]).await.unwrap();
    assert_eq!(objects.list("").await.unwrap(), Listed::default());
    let error = objects.read("a/b").await.unwrap_err();
    assert_eq!(error.to_string(), "s3://mine/out/a/b is not there");
}
