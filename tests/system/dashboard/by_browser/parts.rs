//! Scripts of the pages alone, with answers that are too large, too many or too rare for a scene of their own.

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    support::{Place, Running, alone},
};

/// Value of an expression in the page: `part` is a script of the dashboard, `given` an argument.
pub(super) fn made(part: &str, expression: &str, given: Value) -> Value {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &["--role", "query"], &[]);
    let browser = Browser::start();
    browser.open(&format!("http://{}/", service.address()));
    let script = format!(
        "const [given, done] = arguments; import('/dashboard/{part}').then(async (part) => done(await ({expression}))).catch((error) => done(String(error)))"
    );
    browser.run_until_done(&script, &[given])
}

/// A line of very many rows is made quickly: each row once copied the line before.
#[test]
fn many_rows_become_a_line_quickly() {
    let lines = "(() => {
        const rows = Array.from({ length: given }, (_, at) => ({ day: '2026-06-01', score: at }));
        const began = performance.now();
        const lines = part.linesOf(rows, ['day', 'score']);
        return [lines.length, lines[0].points.length, performance.now() - began < 5_000];
    })()";
    assert_eq!(made("sql.js", lines, json!(200_000)), json!([1, 200_000, true]));
    let page = "(async () => {
        const body = Array.from({ length: given }, (_, at) => JSON.stringify({ day: '2026-06-01', score: at })).join('\\n');
        window.fetch = async () => new Response(body);
        const shown = await part.page({ workspace: 'credit/prod', chosen: new URLSearchParams('sql=select'), go: () => {} });
        return [shown[1].querySelector('.card-head p').textContent, shown[1].querySelectorAll('.chart').length];
    })()";
    assert_eq!(made("sql.js", page, json!(5_001)), json!(["No chart: 5,001 points are more than 5,000.", 0]));
}

/// A tick has the decimal places of its step: 0.25 was shown as 0.3.
#[test]
fn ticks_are_what_stands_at_them() {
    let asked =
        json!([[0.25, 0.25], [2.5, 2.5], [25, 25], [0.3, 0.1], [0.15, 0.05], [12_500, 2_500], [10_250, 250]]);
    assert_eq!(
        made("words.js", "given.map(([value, step]) => part.tick(value, step))", asked),
        json!(["0.25", "2.5", "25", "0.3", "0.15", "12.5k", "10.25k"])
    );
}

/// The latest records of a long audit log are shown.
#[test]
fn latest_records_of_an_audit_log_are_shown() {
    // One record for each of `given` days.
    let expression = "(async () => {
        const day = 86_400_000;
        const now = Math.floor(Date.now() / day);
        window.fetch = async (where) => {
            const { searchParams: words } = new URL(where, location);
            const first = Math.max(now - given + 1, Date.parse(words.get('from')) / day);
            let all = Array.from({ length: now - first + 1 }, (_, at) => JSON.stringify({ back: now - first - at }));
            all = words.get('order') === 'newest' ? all.reverse() : all;
            return new Response(all.slice(0, Number(words.get('limit'))).join('\\n'));
        };
        const { records, says } = await part.auditLog('credit/prod');
        return [records.length, records[0].back, records.at(-1).back, says && says.replace(/ since .*; /, '; ')];
    })()";
    assert_eq!(made("catalog.js", expression, json!(30)), json!([30, 0, 29, null]));
    let says = "The latest 200 records; `almanac audit` has more.";
    assert_eq!(made("catalog.js", expression, json!(3_000)), json!([200, 0, 199, says]));
}

/// The newest releases of a long list can be chosen, and beside them the chosen and live ones.
#[test]
fn newest_chosen_and_live_releases_are_comparable() {
    let expression = "(async () => {
        const all = Array.from({ length: given }, (_, at) => ({ name: `r${at}`, created_at: new Date(at * 60_000).toISOString() }));
        window.fetch = async (where) => {
            const { pathname, searchParams: words } = new URL(where, location);
            if (pathname.endsWith('/live')) return new Response(JSON.stringify({ live: [{ release: 'r3' }, { release: 'r1' }] }));
            const from = Number(words.get('cursor') ?? 0);
            const ordered = words.get('order') === 'newest' ? [...all].reverse() : all;
            const [limit, end] = [Number(words.get('limit')), from + Number(words.get('limit'))];
            return new Response(JSON.stringify({ releases: ordered.slice(from, from + limit), next_cursor: end < given ? String(end) : null }));
        };
        const of = async (hash) => {
            const { names, release, against } = await part.two({ workspace: 'credit/prod', chosen: new URLSearchParams(hash) });
            return [names.slice(0, 4), names.length, release, against];
        };
        return [await of(''), await of('release=r1&against=r2')];
    })()";
    assert_eq!(
        made("compare.js", expression, json!(620)),
        json!([
            [["r3", "r1", "r120", "r121"], 502, "r619", "r618"],
            [["r1", "r2", "r3", "r120"], 503, "r1", "r2"],
        ])
    );
}

/// One definition of several releases is one change; changes of releases and alerts stand in one order.
#[test]
fn changes_are_one_line_of_time() {
    let expression = "(() => {
        const entry = (at, what, about) => ({ at, what, about, model: 'risk', environment: null, note: null });
        const alert = (at, what, rule) => ({ at, what, rule, day: at.slice(0, 10), text: '' });
        return part.changesOf(given[0].map((one) => entry(...one)), given[1].map((one) => alert(...one))).map((one) => [one.what, ...one.about]);
    })()";
    let entries = json!([
        ["2026-06-04T00:00:00Z", "define", "v2"],
        ["2026-06-04T00:00:00Z", "define", "v1"],
        ["2026-06-02T00:00:00Z", "promote", "v1"],
        ["2026-06-01T00:00:00Z", "register", "v1"],
    ]);
    let alerts =
        json!([["2026-06-05T00:00:00Z", "resolves", "few"], ["2026-06-03T00:00:00Z", "fires", "few"]]);
    assert_eq!(
        made("overview.js", expression, json!([entries, alerts])),
        json!([
            ["resolves", "few"],
            ["define", "v2", "v1"],
            ["fires", "few"],
            ["promote", "v1"],
            ["register", "v1"]
        ])
    );
}

/// A metric of few labels says of how many it is, in grey.
#[test]
fn metrics_of_few_labels_are_grey() {
    let expression = "given.map((labelled) => { const shown = part.metricStat('auc', 0.5, labelled).lastChild; return [shown.textContent, Boolean(shown.querySelector('.few'))]; })";
    assert_eq!(
        made("common.js", expression, json!([4, 30, 4_000])),
        json!([
            ["0.5000 of 4 labelled", true],
            ["0.5000 of 30 labelled", false],
            ["0.5000 of 4,000 labelled", false]
        ])
    );
}

/// A window ends with the last day with predictions: the day of a promotion has none.
#[test]
fn window_ends_with_last_day_of_predictions() {
    // Each day is given by its age in days, and its predictions.
    let expression = "(async () => {
        const dayOf = (back) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10);
        const of = async (all) => {
            window.fetch = async (where) => {
                const words = new URL(where, location).searchParams;
                const within = all.map(([back, predictions]) => ({ day: dayOf(back), release: null, predictions })).filter(({ day }) => words.get('from') <= day && day <= words.get('to'));
                return new Response(within.map((row) => JSON.stringify(row)).join('\\n'));
            };
            const { from, to } = await part.windowOf({ workspace: 'credit/prod', chosen: new URLSearchParams() });
            return [from, to].map((day) => Math.round((Date.parse(dayOf(0)) - Date.parse(day)) / 86_400_000));
        };
        return [await of(given[0]), await of(given[1]), await of(given[2])];
    })()";
    let given = json!([[[9, 5], [8, 5], [0, 0]], [[9, 0], [0, 0]], [[600, 5], [599, 5], [0, 0]]]);
    assert_eq!(made("common.js", expression, given), json!([[9, 8], [9, 0], [600, 599]]));
}

/// A rule on the count of events with a tag names it.
#[test]
fn a_rule_says_its_tag() {
    let rules = json!([
        {"count": "predictions", "tag": "country=de", "below": 5.0},
        {"count": "predictions", "below": 5.0},
        {"metric": "accuracy", "tag": "country=de", "release": "v1", "below": 0.5},
    ]);
    assert_eq!(
        made("alerts.js", "given.map(part.watches)", rules),
        json!([
            "count of predictions with country=de below 5",
            "count of predictions below 5",
            "accuracy with country=de of v1 below 0.5",
        ])
    );
}

/// The axis of a window includes promotions on its last day.
#[test]
fn marks_of_last_day_fit_on_the_axis() {
    let expression = "(() => {
        const window = { from: '2026-06-01', to: '2026-06-03' };
        const entry = (at) => ({ what: 'promote', about: 'v1', model: 'risk', environment: 'production', at });
        return given.map(([group, at]) => {
            const marks = part.promotions(at ? [entry(at)] : [], window);
            const [left, right] = part.axisOf(window, group, marks);
            return [right - left, marks.every((mark) => left <= mark.x && mark.x <= right)];
        });
    })()";
    let given = json!([
        ["day", "2026-06-03T18:00:00Z"],
        ["day", "2026-06-02T18:00:00Z"],
        ["day", null],
        ["week", null],
    ]);
    assert_eq!(made("common.js", expression, given), json!([[3, true], [2, true], [2, true], [3, true]]));
}

/// A failed history shows the reason; a caller who is no longer signed in is asked for a token.
#[test]
fn a_history_that_cannot_be_had_says_why() {
    let asks = "(async () => {
        let asked = 0;
        let status = 404;
        window.fetch = async () => {
            asked += 1;
            return new Response(JSON.stringify({ detail: given }), { status });
        };
        const of = async (metric) => ({ name: 'a', ...(await part.historyOf('credit/prod', 'a', metric)) });
        const folder = await of('..');
        const unasked = asked;
        const gone = await of('loss');
        const { problem, rows, chart } = part.drawn('loss', [gone, gone], 200);
        status = 401;
        const signedOut = await of('loss').catch((error) => error.status);
        return [unasked, folder.problem.split(':')[0], problem, rows.length, chart, signedOut];
    })()";
    let expected = json!([
        0,
        "The history of `..` cannot be asked for",
        "The history of `loss` cannot be shown: It is gone.",
        0,
        null,
        401
    ]);
    assert_eq!(made("runs.js", asks, json!("It is gone.")), expected);
}

/// An address keeps any choice, with any characters in names; an empty choice is kept, too.
#[test]
fn an_address_lists_any_names_and_none() {
    let lists = json!([[], ["metric.loss"], ["a\nb", "&", "=", "%", "+ +", "..", "?x", "#\u{e9}"]]);
    let again = "given.map((all) => part.listed(part.listOf(all)))";
    assert_eq!(made("runs.js", again, lists.clone()), lists);
    assert_eq!(made("runs.js", "part.listOf(given) === ''", json!([])), false);
}

/// If later days reverse a comparison, the verdict is that of the latest.
#[test]
fn a_verdict_is_that_of_the_latest_day() {
    let expression = "(async () => {
        const day = (day, winner, decided_at) => ({ day, winner, decided_at, measure: 'brier', n: 1, wins: 1, losses: 0, ties: 0, advantage_so_far: 0.1, low_so_far: 0, high_so_far: 0.2, accuracy_difference: null, auc_difference: null, brier_difference: null, log_loss_difference: null, mae_difference: null });
        const all = given.map((one) => day(...one));
        window.fetch = async (where) => {
            const { pathname } = new URL(where, location);
            if (pathname.endsWith('/head-to-head')) return new Response(all.map((row) => JSON.stringify(row)).join('\\n'));
            if (pathname.endsWith('/drift')) return new Response('');
            return new Response(JSON.stringify({ live: [], releases: [], entries: [], next_cursor: null }));
        };
        const shown = await part.page({ workspace: 'credit/prod', chosen: new URLSearchParams('release=v2&against=v1&from=2026-06-01&to=2026-06-09'), go: () => {} });
        const verdict = shown.find((one) => one instanceof Node && one.matches('.stats')).firstChild;
        const [big, quiet] = verdict.querySelectorAll('span');
        return [big.textContent, quiet.textContent];
    })()";
    let first = json!(["2026-06-01", "v2", "2026-06-01"]);
    let open = json!(["2026-06-06", null, null]);
    let second = json!(["2026-06-09", "v1", "2026-06-09"]);
    assert_eq!(made("compare.js", expression, json!([first, open])), json!(["open", "not decided"]));
    let says = json!(["v1", "is better, decided on 2026-06-09"]);
    assert_eq!(made("compare.js", expression, json!([first, open, second])), says);
}

/// Classes stand in their order, and the shade follows the share of a truth: of ten classes, 1 and 85 of a hundred looked alike.
#[test]
fn matrix_shows_truth_shares_in_class_order() {
    let expression = "(() => {
        const shown = part.matrix('v1', given.map(([truth, predicted, count]) => ({ truth, predicted, count })));
        return [...shown.querySelectorAll('tbody tr')].map((row) => [row.cells[0].textContent, [...row.cells].slice(1).map((cell) => Number(cell.className.at(-1)))]);
    })()";
    let given = json!([
        ["10", "10", 85],
        ["10", "9", 1],
        ["late", "late", 40],
        ["late", "10", 60],
        ["9", "9", 8_500],
        ["-1.5", "early", 2]
    ]);
    let rows = json!([
        ["-1.5", [0, 0, 0, 4, 0]],
        ["9", [0, 4, 0, 0, 0]],
        ["10", [0, 1, 4, 0, 0]],
        ["early", [0, 0, 0, 0, 0]],
        ["late", [0, 0, 3, 0, 2]]
    ]);
    assert_eq!(made("day.js", expression, given), rows);
}

/// A name with a direction mark is not shown as another one; right-to-left letters are unchanged.
#[test]
fn names_show_marks_that_turn_letters() {
    let expression = "given.map((text) => [part.name(text).textContent, part.name(text).title])";
    let given = json!(["late", "\u{202e}LTR", "\u{5d0}\u{2066}b\u{2069}"]);
    let shown = ["late", r"\u{202e}LTR", "\u{5d0}\\u{2066}b\\u{2069}"];
    assert_eq!(made("dom.js", expression, given), json!(shown.map(|text| [text, text])));
}
