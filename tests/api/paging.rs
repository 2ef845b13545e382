//! Events page by page: together the rows of one answer, whatever comes meanwhile and whichever process answers. Each on a
//! SQLite file and on DynamoDB Local.

use std::sync::Arc;

use event::{Clock, ErrorKind, Kind, Result};
use log::after::After;
use query::{Bounds, Dataset, Format, Params, Query, Request};
use tests::{on_both_engines, scene::Scene, world::at};

use crate::streamed::{PREDICTIONS, WHOLE, filled, june, put, put_in_lane, query};

on_both_engines!(
    Scene::on:
    pages_are_together_the_rows_of_one_answer,
    a_page_of_another_request_is_refused,
    a_large_day_is_paged_in_little_memory,
    page_skips_segments_wholly_read_by_earlier_pages,
    relative_window_stays_fixed_across_pages,
);

/// The rows of all pages, from a new service each, and how many pages there were. Before each page but the first
/// `meanwhile` happens.
async fn paged(
    scene: &Scene,
    words: &Params<'_>,
    meanwhile: impl AsyncFn(usize),
) -> Result<(Vec<String>, usize)> {
    let (mut rows, mut pages, mut after) = (Vec::new(), 0, "begin".to_owned());
    loop {
        let asked = after.parse::<After>()?;
        let request = Request::parse(PREDICTIONS, words)?;
        let (mut answer, next) =
            query(&scene.table, Bounds::default()).page(scene.id(), &request, &asked).await?;
        let mut text = Vec::new();
        Format::Csv.write(&mut answer.frame, &mut text)?;
        let more = String::from_utf8(text).unwrap();
        let more: Vec<String> = more.lines().skip(1).map(str::to_owned).collect();
        assert!(!more.is_empty() && answer.read_version.is_some() && answer.warnings.is_empty());
        rows.extend(more);
        pages += 1;
        let Some(end) = next else { return Ok((rows, pages)) };
        after = end.to_string();
        meanwhile(pages).await;
    }
}

async fn pages_are_together_the_rows_of_one_answer(scene: Scene) {
    filled(&scene, 300).await;
    let columns = Some("day,key,score,tag.city1");
    // The most rows of a page, and what else is asked for.
    let cases = [
        (1_000, june()),
        (631, june()),
        (100_000, june()),
        (900, Params { order: Some("newest"), ..june() }),
        (50, Params { filter: Some("score > 0.5 and tag.city1 = 'Ulm'"), ..june() }),
        (400, Params { sample: Some("0.25"), release: Some("v2"), ..june() }),
        (700, Params { from: "2026-06-01T00:01:00Z", ..june() }),
    ];
    for (seq, (limit, words)) in cases.into_iter().enumerate() {
        let words = Params { columns, ..words };
        let request = Request::parse(PREDICTIONS, &words).unwrap();
        let mut whole = query(&scene.table, WHOLE).run(scene.id(), &request).await.unwrap();
        let mut text = Vec::new();
        Format::Csv.write(&mut whole.frame, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        // Writers append to every lane of the days that are being read, and begin another day.
        let scene = &scene;
        let writing = async |page: usize| {
            if page == 1 {
                for lane in 0..4 {
                    // The next number of the lane, which a writer would take.
                    let next = next_seq(scene, "2026-06-01", lane).await;
                    put(scene, ("2026-06-01", lane, next), 20).await;
                }
                let day = format!("2026-06-{:02}", 4 + seq);
                put(scene, (&day, 0, 1), 20).await;
            }
        };
        let most = limit.to_string();
        let words = Params { limit: Some(&most), ..words };
        let (rows, pages) = paged(scene, &words, writing).await.unwrap();
        assert!(rows.len() > 100, "{words:?}");
        assert_eq!(pages, rows.len().div_ceil(limit), "{words:?}");
        assert_eq!(rows, text.lines().skip(1).collect::<Vec<_>>(), "{words:?}");
    }
}

/// The number of the next segment of a lane.
async fn next_seq(scene: &Scene, day: &str, lane: u8) -> u64 {
    let heads = log::scan::heads(&*scene.table, scene.id()).await.unwrap();
    let is_it = |log: &log::key::LogId| {
        log.day.to_string() == day && log.lane == lane && log.kind == Kind::Predictions
    };
    heads.iter().find(|head| is_it(&head.log)).map_or(1, |head| head.seq + 1)
}

async fn a_page_of_another_request_is_refused(scene: Scene) {
    filled(&scene, 20).await;
    let words = Params { limit: Some("30"), columns: Some("key"), ..june() };
    let service = query(&scene.table, Bounds::default());
    let page = async |words: &Params<'_>, after: &After| {
        let request = Request::parse(PREDICTIONS, words)?;
        service.page(scene.id(), &request, after).await
    };
    let (_, next) = page(&words, &After::Beginning).await.unwrap();
    let next = After::Page(Box::new(next.unwrap()));
    // Fewer rows, and other columns of them, are of the same answer.
    let (other, _) =
        page(&Params { limit: Some("7"), columns: Some("score,day"), ..words.clone() }, &next).await.unwrap();
    assert_eq!(other.frame.shape(), (7, 2));
    for words in [
        Params { filter: Some("score > 0.1"), ..words.clone() },
        Params { order: Some("newest"), ..words.clone() },
        Params { release: Some("v1"), ..words.clone() },
        Params { to: "2026-06-29", ..words.clone() },
    ] {
        let error = page(&words, &next).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with("after: the page before was of another request"), "{error}");
    }
    let much = page(&Params { limit: Some("100001"), ..words.clone() }, &After::Beginning).await.unwrap_err();
    assert!(much.to_string().contains("100000"), "{much}");
    let joined = Request::parse(Dataset::Joined, &june()).unwrap();
    let error = service.page(scene.id(), &joined, &After::Beginning).await.unwrap_err();
    assert!(error.to_string().contains("only events are"), "{error}");
    // The rows of one workspace are not shown to another one.
    let other =
        scene.world.catalog.ensure_workspace("credit/other", at("2026-06-01T00:00:00Z")).await.unwrap();
    let request = Request::parse(PREDICTIONS, &words).unwrap();
    let error = service.page(other.id(), &request, &next).await.unwrap_err();
    assert!(error.to_string().contains("the read version is of the workspace"), "{error}");
}

async fn a_large_day_is_paged_in_little_memory(scene: Scene) {
    for lane in 0..8 {
        put_in_lane(&scene, ("2026-06-01", lane, 1), 20_000).await;
    }
    let bounds = Bounds { memory: 16 << 20, ..Bounds::default() };
    let service = query(&scene.table, bounds);
    let words = Params { limit: Some("20000"), ..june() };
    let request = Request::parse(PREDICTIONS, &words).unwrap();
    let (mut after, mut rows) = (Some(After::Beginning), 0);
    while let Some(asked) = after {
        let (answer, next) = service.page(scene.id(), &request, &asked).await.unwrap();
        rows += answer.frame.height();
        after = next.map(|end| After::Page(Box::new(end)));
    }
    assert_eq!(rows, 160_000);
}

async fn page_skips_segments_wholly_read_by_earlier_pages(scene: Scene) {
    for seq in 1..=40 {
        put(&scene, ("2026-06-01", 0, seq), 2_000).await;
    }
    let words = Params { limit: Some("10000"), columns: Some("key"), ..june() };
    let request = Request::parse(PREDICTIONS, &words).unwrap();
    let service = query(&scene.table, Bounds::default());
    let (mut after, mut reads, mut rows) = (Some(After::Beginning), Vec::new(), 0);
    while let Some(asked) = after {
        let (page, read) = scene.world.reads(service.page(scene.id(), &request, &asked)).await;
        let (answer, next) = page.unwrap();
        rows += answer.frame.height();
        reads.push(read.items);
        after = next.map(|end| {
            // The text of a page that is within a day names a segment, also when it is read again.
            let end: After = end.to_string().parse().unwrap();
            assert!(matches!(&end, After::Page(end) if end.begin.is_some()));
            end
        });
    }
    assert_eq!((rows, reads.len()), (80_000, 8));
    let [_, second, .., last] = reads[..] else { panic!("{reads:?}") };
    assert!(last + 20 <= second, "{reads:?}");
}

async fn relative_window_stays_fixed_across_pages(scene: Scene) {
    filled(&scene, 100).await;
    let at_noon = |day: &str| at(&format!("{day}T12:00:00Z"));
    let page = async |now, after: &After| {
        let service = Query::new(Arc::clone(&scene.table), Clock::from_fn(move || now));
        let now = after.asked_at().unwrap_or(now);
        let last = Some(query::Last { word: "2d", now });
        let words = Params { last, limit: Some("250"), columns: Some("key"), ..Params::default() };
        let request = Request::parse(PREDICTIONS, &words).unwrap();
        service.page(scene.id(), &request, after).await.unwrap()
    };
    let (first, next) = page(at_noon("2026-06-03"), &After::Beginning).await;
    // The second page is asked for a week later, of the same two days.
    let (second, last) = page(at_noon("2026-06-10"), &After::Page(Box::new(next.unwrap()))).await;
    let (third, end) = page(at_noon("2026-06-10"), &After::Page(Box::new(last.unwrap()))).await;
    let rows = [first, second, third].map(|answer| answer.frame.height());
    assert_eq!((rows, end), ([250, 250, 110], None));
}
