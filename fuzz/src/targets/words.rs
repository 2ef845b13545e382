//! Small texts: tokens, ranges of addresses, times, names, ids, read versions, and the words of queries.

use access::{Network, Token};
use event::{Costs, Day, Dimension, Id, Period, Share, Timestamp, Zone, id::check_name};
use log::read_version::ReadVersion;
use query::{Dataset, Params, Request};

use super::texts;
use crate::{Target, house::TOKEN};

pub(super) const TARGET: Target = Target {
    name: "words",
    about: "tokens, addresses, times, names, ids, read versions and the words of queries",
    seeds,
    words: &[
        "alm_",
        "/8",
        "::1",
        "10.0.0.0",
        "2026-06-01",
        "T00:00:00Z",
        "+02:00",
        "..",
        ",",
        "tag.",
        "feature.",
        "score.",
        "custom.",
        "day",
        "week",
        "month",
        "Europe/Berlin",
        "tp=1",
        "fn=-5",
        "7d",
        "null",
        "1e308",
        "-0",
    ],
    take,
};

/// Which word of a query the text is.
const SLOTS: [fn(&str) -> Params<'_>; 17] = [
    |text| Params { from: text, to: text, ..Params::default() },
    |text| Params { columns: Some(text), ..july() },
    |text| Params { release: Some(text), ..july() },
    |text| Params { tag: Some(text), ..july() },
    |text| Params { key: Some(text), ..july() },
    |text| Params { limit: Some(text), ..july() },
    |text| Params { sample: Some(text), ..july() },
    |text| Params { order: Some(text), ..july() },
    |text| Params { by: Some(text), bins: Some("0,1,2"), ..july() },
    |text| Params { by: Some("feature.x"), bins: Some(text), ..july() },
    |text| Params { time_zone: Some(text), ..july() },
    |text| Params { as_of: Some(text), ..july() },
    |text| Params { read_version: Some(text), ..july() },
    |text| Params { threshold: Some(text), zero_division: Some(text), ..july() },
    |text| Params { costs: Some(text), period: Some("week"), ..july() },
    |text| Params { change: Some(text), ..july() },
    |text| Params { reference: Some(text), against: Some(text), ..july() },
];

fn july() -> Params<'static> {
    Params { from: "2026-07-01", to: "2026-07-31", ..Params::default() }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "10.0.0.0/8",
        "2001:db8::/32",
        "2026-06-01",
        "2026-06-01T04:30:00.25+02:00",
        "Europe/Berlin",
        "credit",
        "week",
        "0.25",
        "tp=1,fp=-0.5,fn=-5",
        "tag.carrier,feature.age:0,18,65",
        "2NBs0tD5Ihm2PVFzM3kZvMYdQX9",
        "2026-06-01..2026-06-30",
        "v1",
    ]);
    seeds.push(TOKEN.as_bytes().to_vec());
    seeds.iter_mut().for_each(|seed| seed.insert(0, 0));
    seeds
}

/// A text that is read is written as one that is read again as the same.
fn read_again<T: PartialEq + std::fmt::Debug>(value: Option<T>, again: impl Fn(&T) -> Option<T>) -> bool {
    value.is_some_and(|value| {
        assert_eq!(again(&value).as_ref(), Some(&value), "what is written is read as it was");
        true
    })
}

fn take(input: &[u8]) -> bool {
    // The first byte says for which word of which query the text is tried.
    let Some((choice, text)) = input.split_first() else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut is_good = false;
    if let Some(token) = Token::parse(text) {
        assert_eq!(token.text(), text);
        assert!(Token::is_in(&format!("/v1/x?a={text}&b")), "a token in a URL is found");
        assert!(!format!("{token:?}").contains(text), "a token is not shown");
        is_good = true;
    }
    _ = Token::is_in(text);
    is_good |= read_again(text.parse::<Network>().ok(), |network| network.to_string().parse().ok());
    is_good |= read_again(text.parse::<Day>().ok(), |day| day.to_string().parse().ok());
    is_good |= read_again(Timestamp::parse(text).ok(), |at| Timestamp::parse(&at.to_string()).ok());
    is_good |=
        read_again(text.parse::<ReadVersion>().ok(), |read_version| read_version.to_string().parse().ok());
    is_good |= read_again(Dimension::parse_all(text).ok(), |dimensions| {
        Dimension::parse_all(&Dimension::text_of(dimensions)).ok()
    });
    is_good |= Zone::parse(text).is_ok() | Period::parse(text).is_ok() | Costs::parse(text).is_ok();
    is_good |= Id::parse(text).is_ok() | text.parse::<Share>().is_ok() | check_name(text).is_ok();
    let (verbs, choice) = (Dataset::all().count(), usize::from(*choice));
    let what = Dataset::all().nth(choice % verbs).expect("it is below their number");
    is_good |= Request::parse(what, &SLOTS[choice / verbs % SLOTS.len()](text)).is_ok();
    is_good
}
