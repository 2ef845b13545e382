use event::Clock;
use table::sqlite::SqliteTable;

use super::*;

const WORKSPACE: &str = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";

fn applied(seq: u64) -> Applied {
    Applied::from([("p/00".to_owned(), seq), ("o/00".to_owned(), seq)])
}

/// Written by every version before: a projection like any other.
#[test]
fn a_head_of_the_first_form_is_read() {
    let workspace = Id::parse(WORKSPACE).unwrap();
    let at = At { workspace: &workspace, version: 1, day: "2013-06-01".parse().unwrap() };
    let (item, _) = Projected::empty().replace(at.key(), &applied(3), "{\"v\":1,\"releases\":{}}".into());
    let head = Head::from_item(&item).unwrap();
    assert_eq!((head.ver, &head.applied, head.rows), (1, &applied(3), None));
    let found = assemble([&item]).unwrap();
    assert_eq!(found, Found::Whole(head, vec!["{\"v\":1,\"releases\":{}}".to_owned()]));
}

#[test]
fn heads_are_read_as_they_are_written() {
    let workspace = Id::parse(WORKSPACE).unwrap();
    let key = key::evaluation(&workspace, 1, "2013-06-01".parse().unwrap());
    let generation = Generation { ver: 7, digest: 0xab };
    let head = |rows, place| Head { ver: 7, applied: applied(3), rows, place, slices: None };
    let heads = [
        head(Some(12), States::Here("{}".to_owned())),
        head(None, States::Here("{}".to_owned())),
        head(Some(12), States::Parts { generation, count: 2 }),
        Head { slices: Some((generation, 3)), ..head(Some(12), States::Here("{}".to_owned())) },
    ];
    for head in &heads {
        let item = head.to_item(key.clone());
        assert_eq!(Head::from_item(&item).as_ref().unwrap(), head);
        assert_eq!(Projected::applied_of(&item).unwrap(), head.applied);
    }
    // An older Almanac refuses what it cannot read, instead of showing nothing.
    let item = heads[2].to_item(key);
    assert!(Projected::from_item(&item).is_err());
    assert!(Head::from_item(&item.clone().with("v", 3)).is_err());
    assert!(Head::from_item(&item.with("generation", "7-ab")).is_err());
    insta::assert_snapshot!(
        heads.map(|head| format!("{:?}", head.to_item(Key::new("", "")).attributes)).join("\n")
    );
}

#[tokio::test]
async fn overtaken_evaluation_is_refused_and_stale_parts_removed() {
    let folder = tempfile::tempdir().unwrap();
    let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
    let workspace = Id::parse(WORKSPACE).unwrap();
    let at = At { workspace: &workspace, version: 1, day: "2013-06-01".parse().unwrap() };
    let content = |seq, states: &[&str]| Content {
        applied: applied(seq),
        rows: Some(seq),
        states: states.iter().map(|state| (*state).to_owned()).collect(),
        slices: Vec::new(),
    };
    let none = head(&table, at).await.unwrap();
    assert_eq!((&none, load(&table, at).await.unwrap()), (&Head::none(), None));
    write(&table, at, &none, content(1, &["a", "b"]), OfGone::Refused).await.unwrap();
    let late = write(&table, at, &none, content(2, &["c", "d"]), OfGone::Refused).await;
    assert!(late.unwrap_err().is_conflict());
    let (first, states) = load(&table, at).await.unwrap().unwrap();
    assert_eq!((first.rows, states), (Some(1), vec!["a".to_owned(), "b".to_owned()]));
    write(&table, at, &first, content(3, &["all"]), OfGone::Refused).await.unwrap();
    assert_eq!(load(&table, at).await.unwrap().unwrap().1, ["all"]);
    let parts = key::evaluation_parts(&workspace, 1, at.day);
    assert_eq!(query_all(&table, Query::table(parts)).await.unwrap(), []);
}

/// The slices stand apart from the evaluation of a day, and are deleted when the next evaluation has none.
#[tokio::test]
async fn split_rows_are_read_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
    let workspace = Id::parse(WORKSPACE).unwrap();
    let at = At { workspace: &workspace, version: 1, day: "2013-06-01".parse().unwrap() };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let write = async |states: &[&str], slices: &[&str]| {
        let content = Content { states: texts(states), slices: texts(slices), ..Content::default() };
        let before = head(&table, at).await.unwrap();
        super::write(&table, at, &before, content, OfGone::Refused).await.unwrap();
    };
    let apart = async || {
        let range = key::all_slices(&workspace, 1);
        query_all(&table, Query::table(range)).await.unwrap()
    };
    for states in [&["a", "b"][..], &["a"]] {
        write(states, &["x", "y"]).await;
        let (head, all) = load(&table, at).await.unwrap().unwrap();
        assert_eq!(all, [texts(states), texts(&["x", "y"])].concat());
        assert_eq!(head.apart(all), (texts(states), texts(&["x", "y"])));
        assert_eq!(load_plain(&table, at).await.unwrap().unwrap().1, texts(states));
        assert_eq!(apart().await.len(), 2, "those of the generation before are gone");
    }
    // A part that is lost for good affects only readers of it.
    table.delete(&apart().await[1].key, Condition::None).await.unwrap();
    assert!(load(&table, at).await.unwrap_err().to_string().contains("a part of its generation is missing"));
    assert_eq!(load_plain(&table, at).await.unwrap().unwrap().1, ["a"]);
    write(&["c"], &[]).await;
    assert_eq!((load(&table, at).await.unwrap().unwrap().1, apart().await), (texts(&["c"]), Vec::new()));
}
