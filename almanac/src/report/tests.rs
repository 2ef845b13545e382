use catalog::{AlertRuleBody, PromotionGates, PromotionGatesBody};
use event::{Day, Kind, NewDefinition};
use log::key::{EntityId, EntityKind};
use plot::{Chart, Line, Mark, Point};
use serde_json::json;
use tests::{
    engine::Engine,
    scene::{NOW, Scene},
    world::at,
};

use super::{
    SECTIONS, Wanted,
    ask::Ask,
    page::{Grid, Head, Section, page},
    rows::Cell,
    sections,
};

/// Text that a page without escaping would interpret.
const HOSTILE: &str = "\"><script>alert('1')</script><img src=x onerror=alert(2)>&amp;\u{202e}txt.exe\u{0}";
const EMOJI: &str = "✈️ 👩‍🚀 שלום";

fn hostile() -> Section {
    let at = "2013-06-01".parse::<Day>().unwrap().start();
    let mut section = Section::new("drift", "What has changed");
    section.say(HOSTILE);
    section.lack(HOSTILE);
    section.brief.push(format!("{HOSTILE}{EMOJI}"));
    let line = Line { name: HOSTILE.into(), points: vec![Point::new(at, Some(1.0))] };
    section.chart(Chart {
        title: HOSTILE.into(),
        lines: vec![line.clone(), line],
        marks: vec![Mark { at, text: HOSTILE.into() }],
        ..Chart::default()
    });
    let mut grid = Grid::new(HOSTILE, &[HOSTILE, "n"]);
    grid.rows.push(vec![Cell::text(HOSTILE), Cell::text(EMOJI)]);
    section.table(grid);
    section
}

#[test]
fn text_is_text_whatever_it_says() {
    let head = Head { title: HOSTILE.into(), facts: vec![("Workspace", HOSTILE.into())] };
    let text = page(&head, &[hostile()]);
    for wrong in ["<script", "<img", "onerror=alert(2)>", "\u{0}", "&amp;\u{202e}"] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
    assert!(text.contains("&quot;&gt;&lt;script&gt;alert('1')&lt;/script&gt;") && text.contains(EMOJI));
    // Text stays inside its element: opening and closing tags are equal in number.
    for tag in ["section", "h2", "p", "li", "table", "tr", "td", "th", "figure", "svg", "text", "title", "g"]
    {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}: {text}");
    }
}

#[test]
fn report_page_is_self_contained_and_accessible() {
    let text = page(&Head { title: "a".into(), facts: Vec::new() }, &[hostile()]);
    for elsewhere in ["http://", "https://", "src=\"", "url(", "@import", "<link"] {
        let found = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(elsewhere), "{elsewhere}: {text}");
    }
    assert!(text.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    for part in ["<h1>", "<h2 id=\"drift\">", "<caption>", "scope=\"col\"", "scope=\"row\"", "role=\"img\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for media in ["prefers-color-scheme:dark", "@media print", "default-src 'none'"] {
        assert!(text.contains(media), "{media}");
    }
}

#[test]
fn long_report_table_shows_its_last_rows() {
    let mut section = Section::new("figures", "Figures");
    let mut grid = Grid::new("Figures by day", &["day", "n"]);
    grid.rows = (0..100).map(|row| vec![Cell::text(format!("day {row}")), Cell::count(row)]).collect();
    section.table(grid);
    let text = page(&Head::default(), &[section]);
    assert!(text.contains("Figures by day: the last 60 of 100 rows</caption>"), "{text}");
    assert!(!text.contains(">day 39<") && text.contains(">day 40<") && text.contains(">day 99<"));
}

#[test]
fn sections_are_chosen_by_their_names() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = Wanted::of(&[]).unwrap();
    assert!(SECTIONS.iter().all(|section| all.has(section)));
    let two = Wanted::of(&names(&["drift", "alerts"])).unwrap();
    assert_eq!(
        SECTIONS.into_iter().filter(|section| two.has(section)).collect::<Vec<_>>(),
        ["drift", "alerts"]
    );
    let wrong = Wanted::of(&names(&["drift", "all"])).map(|_| ()).unwrap_err().to_string();
    assert!(wrong.contains("sections: `all` is none of live, figures, compared, metrics, gates"), "{wrong}");
}

#[derive(Debug, clap::Parser)]
struct Parsed {
    #[command(flatten)]
    args: super::ReportArgs,
}

/// Predictions of three carriers on a day, one of them always wrong, and their outcomes.
async fn predict(scene: &Scene, day: &str) {
    let prediction = |n: usize| {
        let carrier = ["UA", "AA", "DL"][n % 3];
        json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                "score": if n.is_multiple_of(2) { 0.9 } else { 0.1 }, "tags": { "carrier": carrier, "size": if n < 30 { "large" } else { "small" } } })
    };
    let outcome = |n: usize| {
        let is_right = n % 3 != 1;
        let label = if n.is_multiple_of(2) == is_right { "1" } else { "0" };
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": label })
    };
    let now = format!("{day}T12:00:00Z");
    scene.append(Kind::Predictions, (0..60).map(prediction).collect(), &now).await.unwrap();
    scene.append(Kind::Outcomes, (0..60).map(outcome).collect(), &now).await.unwrap();
}

/// Predictions of `v1` and `v2` on a day, with these scores for the true label, and their outcomes.
async fn predict_both(scene: &Scene, day: &str, sure: [f64; 2]) {
    let of_release = |(release, score): (&str, f64)| -> Vec<serde_json::Value> {
        let prediction = |n: usize| json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score });
        (0..60).map(prediction).collect()
    };
    let outcome = |n: usize| json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T09:00:00Z"), "label": "1" });
    let now = "2026-06-09T12:00:00Z";
    let predictions = ["v1", "v2"].into_iter().zip(sure).flat_map(of_release).collect();
    scene.append(Kind::Predictions, predictions, now).await.unwrap();
    scene.append(Kind::Outcomes, (0..60).map(outcome).collect(), now).await.unwrap();
}

/// Cells of the row of a table that begins with these texts.
fn row<'a>(page: &'a str, begins: &[&str]) -> Vec<&'a str> {
    let cells = |row: &'a str| -> Vec<&'a str> {
        let row = row.split("</tr>").next().unwrap_or_default();
        let cell = |cell: &'a str| cell.split_once('>').map(|(_, text)| text);
        row.split(['\n'])
            .flat_map(|line| line.split("<t").skip(1))
            .filter_map(cell)
            .map(|text| text.split("</t").next().unwrap_or_default())
            .collect()
    };
    let mut rows = page.split("<tr>").skip(1).map(cells);
    let found = rows.find(|cells| cells.len() >= begins.len() && cells[..begins.len()] == *begins);
    found.unwrap_or_else(|| panic!("no row begins with {begins:?}: {page}"))
}

/// Gates of the model, and an approval of the release by its creator.
async fn gate(scene: &Scene) {
    let catalog = &scene.world.catalog;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    let gates = PromotionGatesBody { min_n: Some(1_000), second_person: true, ..Default::default() };
    let gates = PromotionGates::read(&gates).unwrap();
    let model = EntityId::Model(scene.id().clone(), model);
    catalog.set_promotion_gates(&model, gates.as_ref(), true, at(NOW)).await.unwrap();
    let release =
        catalog.resolve(EntityKind::Release, &format!("{}/v1", scene.workspace.path)).await.unwrap();
    catalog.approve(&release, ("production", Some("Read.")), false, at(NOW)).await.unwrap();
}

#[tokio::test]
async fn report_lists_crossings_and_worst_segments() {
    let scene = Scene::on(Engine::Sqlite).await;
    let new = NewDefinition {
        splits: Some(vec!["tag.carrier".to_owned(), "tag.size".to_owned()]),
        from: Some("2026-06-01".parse().unwrap()),
        ..NewDefinition::default()
    };
    scene.ingest(at("2026-06-01T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
    let wrong = AlertRuleBody {
        name: "often-wrong".into(),
        figure: Some("accuracy".into()),
        release: Some("v1".into()),
        below: Some(0.8),
        ..AlertRuleBody::default()
    };
    let catalog = &scene.world.catalog;
    catalog.apply_alert_rules(scene.id(), vec![wrong], at("2026-06-01T00:00:00Z")).await.unwrap();
    for day in ["2026-06-01", "2026-06-02"] {
        predict(&scene, day).await;
    }
    scene.project().await;
    gate(&scene).await;
    let judged =
        projector::alert::judge(&*scene.table, catalog, scene.id(), at("2026-06-03T00:01:00Z")).await;
    assert_eq!(judged.unwrap().crossings, 1);

    let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-02"];
    let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
    let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
    assert_eq!(
        (ask.reference(), ask.is_first_half),
        ("2026-06-01..2026-06-01", true),
        "nothing is before it"
    );
    let later = ["report", "-w", "credit/prod", "--from", "2026-06-02", "--to", "2026-06-02"];
    let later = <Parsed as clap::Parser>::try_parse_from(later).unwrap().args;
    let later = Ask::of(scene.query(at(NOW)), &scene.workspace, &later).await.unwrap();
    assert_eq!((later.reference(), later.is_first_half), ("2026-05-05..2026-06-01", false));
    let names = ["segments", "alerts", "gates", "maturity"].map(str::to_owned);
    let wanted = Wanted::of(&names).unwrap();
    let text = page(&Head::default(), &sections(&ask, wanted).await.unwrap());
    let says = "accuracy of v1 on 2026-06-01 is 0.6666666666666666, below 0.8";
    assert_eq!(row(&text, &["2026-06-01", "often-wrong"]), ["2026-06-01", "often-wrong", "fires", says]);
    assert_eq!(row(&text, &["often-wrong"]), ["often-wrong", "firing", "2026-06-02"]);
    let worst = row(&text, &["tag.carrier=AA"]);
    assert_eq!(worst[1..3], ["v1", "40"], "{worst:?}");
    let [value, whole, gap] = [worst[4], worst[5], worst[6]].map(|cell| cell.parse::<f64>().unwrap());
    assert!(value == 0.0 && (whole - 2.0 / 3.0).abs() < 1e-3 && (gap + whole).abs() < 1e-3, "{worst:?}");
    let good = row(&text, &["tag.carrier=UA"])[4].parse::<f64>().unwrap();
    assert_eq!(good, 1.0);
    assert!(text.contains("accuracy of v1 is worst for tag.carrier=AA: 0"), "{text}");
    let pair = row(&text, &["tag.carrier=AA, tag.size=large"]);
    assert_eq!(pair[1..3], ["v1", "20"], "{pair:?}");
    assert!(
        text.contains("How far the accuracy of the worst segments is from that of all, by day"),
        "{text}"
    );
    // For days only eight days old, the expected truth is not known.
    assert!(!text.contains("Share of the truth that had come"), "{text}");
    assert_eq!(row(&text, &["m"])[1..5], ["all", "7", "0", "1000 judged predictions; a second person"]);
    let failed = row(&text, &["v1", "m", "no"])[3];
    assert!(
        failed.contains("min_n: 120 of its predictions") && failed.contains("second_person: nobody"),
        "{failed}"
    );
    assert_eq!(row(&text, &["v1", "production"])[4], "Read.");
}

/// A release that was live in the window but not at its end is no champion, in agreement with the table of live releases.
#[tokio::test]
async fn release_retired_in_window_is_no_champion() {
    let scene = Scene::on(Engine::Sqlite).await;
    let change = |action: &str, day: &str| {
        json!({ "release": "v1", "released_at": format!("{day}T00:00:00Z"), "model": "m", "action": action,
                "environment": "production" })
    };
    let changes = json!([change("promote", "2026-06-01"), change("retire", "2026-06-02")]);
    scene.append(Kind::Releases, changes, "2026-06-03T00:00:00Z").await.unwrap();
    for release in ["v1", "v2"] {
        scene.predict("2026-06-01", release, 0.9).await;
    }
    scene.project().await;
    let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-03"];
    let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
    let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
    let wanted = Wanted::of(&["live", "compared"].map(str::to_owned)).unwrap();
    let text = page(&Head::default(), &sections(&ask, wanted).await.unwrap());
    let live = row(&text, &["production", "m", "v1"]);
    assert_eq!(live[3..], ["2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"], "{live:?}");
    let says = "No release of m was live in production when the window ended; the newest is compared with other ones.";
    assert!(text.contains(says), "{text}");
}

/// If later days reverse a decision, the page names the release that is better on its last day, and none while the bounds include
/// zero.
#[tokio::test]
async fn report_names_better_release_by_last_day() {
    let scene = Scene::on(Engine::Sqlite).await;
    for number in 1..10 {
        let sure = if number <= 3 { [0.4, 0.9] } else { [0.9, 0.4] };
        predict_both(&scene, &format!("2026-06-0{number}"), sure).await;
    }
    scene.project().await;
    for (to, says) in [
        ("2026-06-05", "v2 is better than v1: decided on 2026-06-01."),
        ("2026-06-08", "It is not decided whether "),
        ("2026-06-09", "v1 is better than v2: decided on 2026-06-09."),
    ] {
        let words = ["report", "-w", "credit/prod", "--from", "2026-06-01", "--to", to];
        let args = <Parsed as clap::Parser>::try_parse_from(words).unwrap().args;
        let ask = Ask::of(scene.query(at(NOW)), &scene.workspace, &args).await.unwrap();
        let wanted = Wanted::of(&["compared".to_owned()]).unwrap();
        let text = page(&Head::default(), &sections(&ask, wanted).await.unwrap());
        assert!(text.contains(says), "{says} {text}");
    }
}
