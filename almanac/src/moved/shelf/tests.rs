use std::sync::Arc;

use object_store::{ObjectStoreExt, memory::InMemory};

use super::*;
use crate::moved::files::{Files, Sort};

fn in_folder(folder: &tempfile::TempDir) -> Shelf {
    Shelf::Folder(folder.path().to_owned())
}

/// A shelf of objects in memory, and its store.
fn in_memory() -> (Shelf, Arc<InMemory>) {
    let Depot::S3(address) = Depot::parse("s3://mine/out".into()).unwrap() else {
        panic!("it is an address")
    };
    let store = Arc::new(InMemory::new());
    (Shelf::Objects(Objects::of(store.clone(), address)), store)
}

async fn put(store: &InMemory, key: &str) {
    store.put(&key.into(), "half".into()).await.unwrap();
}

async fn keys(store: &InMemory) -> Vec<String> {
    use futures::TryStreamExt;
    use object_store::ObjectStore;
    let keys = store.list(None).map_ok(|of| of.location.to_string());
    let mut keys: Vec<String> = keys.try_collect().await.unwrap();
    keys.sort();
    keys
}

#[tokio::test]
async fn clearing_removes_only_interrupted_export_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shelf = in_folder(&folder);
    fs::write(at("items-00001.ndjson.zst"), "half").unwrap();
    fs::write(at("manifest.json.partial"), "half").unwrap();
    shelf.clear().await.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(at("thesis.tex"), "mine").unwrap();
    assert!(shelf.clear().await.unwrap_err().to_string().contains("thesis.tex"));
    fs::remove_file(at("thesis.tex")).unwrap();
    shelf.finish("{}", &[]).await.unwrap();
    assert!(shelf.clear().await.unwrap_err().to_string().contains("holds an export already"));
}

#[tokio::test]
async fn export_folder_is_locked_for_one_export() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (in_folder(&folder), in_folder(&folder));
    let lock = one.clear().await.unwrap();
    let file = folder.path().join("items-00001.ndjson.zst");
    fs::write(&file, "half").unwrap();
    let refused = other.clear().await.unwrap_err().to_string();
    assert!(refused.contains("another `almanac export` writes to"), "{refused}");
    assert!(file.exists(), "what the other one wrote stays");
    drop(lock);
    other.clear().await.unwrap();
    assert!(!file.exists());
}

#[tokio::test]
async fn clearing_prefix_removes_only_interrupted_export_files() {
    let (shelf, store) = in_memory();
    for key in ["out/items-00001.ndjson.zst", "out/gone-00001.ndjson.zst", "out2/items-00001.ndjson.zst"] {
        put(&store, key).await;
    }
    shelf.clear().await.unwrap();
    assert_eq!(keys(&store).await, ["out2/items-00001.ndjson.zst"]);
    for key in ["out/thesis.tex", "out/day=1/rows.parquet"] {
        put(&store, key).await;
        put(&store, "out/items-00001.ndjson.zst").await;
        let error = shelf.clear().await.unwrap_err().to_string();
        assert!(error.contains("s3://mine/out holds other files"), "{error}");
        assert_eq!(keys(&store).await.len(), 3, "nothing was taken away");
        store.delete(&key.into()).await.unwrap();
    }
    shelf.clear().await.unwrap();
    shelf.finish("{}", &[]).await.unwrap();
    assert!(shelf.clear().await.unwrap_err().to_string().contains("holds an export already"));
    assert_eq!(shelf.manifest().await.unwrap(), "{}");
}

#[tokio::test]
async fn prefix_written_by_another_export_gets_no_manifest() {
    for other in ["out/items-00001.ndjson.zst", "out/items-00002.ndjson.zst", "out/manifest.json"] {
        let (shelf, store) = in_memory();
        let mut files = Files::new(&shelf, Sort::Items);
        files.add("one").await.unwrap();
        let files = files.finish().await.unwrap();
        put(&store, other).await;
        let error = shelf.finish("{}", &files).await.unwrap_err().to_string();
        assert!(error.contains("wrote to it meanwhile"), "{error}");
        assert!(shelf.manifest().await.is_err() || other.ends_with("manifest.json"));
    }
}

#[tokio::test]
async fn shelf_files_round_trip_and_reject_changes() {
    let folder = tempfile::tempdir().unwrap();
    let ((objects, store), on_disk) = (in_memory(), in_folder(&folder));
    let mut written = Vec::new();
    for shelf in [&on_disk, &objects] {
        let mut files = Files::new(shelf, Sort::Items);
        files.add("one").await.unwrap();
        files.add("two").await.unwrap();
        let files = files.finish().await.unwrap();
        assert_eq!(files.len(), 1);
        shelf.check(&files[0]).await.unwrap();
        let read: Result<Vec<String>> = shelf.lines(&files[0]).await.unwrap().collect();
        assert_eq!(read.unwrap(), ["one", "two"]);
        written.extend(files);
    }
    assert_eq!(written[0], written[1], "an export has the same bytes in either");
    let path = folder.path().join(&written[0].name);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(on_disk.check(&written[0]).await.unwrap_err().to_string().contains("its SHA-256 differs"));
    let key = format!("out/{}", written[1].name);
    store.put(&key.as_str().into(), bytes.clone().into()).await.unwrap();
    for error in [objects.check(&written[1]).await.err(), objects.lines(&written[1]).await.err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains(&format!("s3://mine/{key}")), "{error}");
    }
    bytes.push(0);
    store.put(&key.as_str().into(), bytes.into()).await.unwrap();
    assert!(objects.check(&written[1]).await.unwrap_err().to_string().contains("it is longer"));
}

#[test]
fn a_line_longer_than_any_item_is_refused() {
    let read = |bytes: usize| {
        let text = [vec![b'a'; bytes], b"\nb\n".to_vec()].concat();
        lines(io::Cursor::new(text), "items".into()).collect::<Vec<_>>()
    };
    let short: Vec<String> = read(3).into_iter().map(Result::unwrap).collect();
    assert_eq!(short, ["aaa", "b"]);
    let long = read(MAX_LINE_BYTES as usize + 1);
    assert_eq!(long.len(), 1, "nothing is read behind it");
    assert!(long[0].as_ref().unwrap_err().to_string().contains("no item is so large"));
}
