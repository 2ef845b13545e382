use proptest::{collection::vec, prelude::*};
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    votes: Vec<(String, String, u64, u64, u64)>,
    is_connected: bool,
    strengths: BTreeMap<String, [f64; 3]>,
}

fn tally(one: &str, other: &str, wins: [u64; 2], ties: u64) -> Tally {
    Tally { releases: [one.to_owned(), other.to_owned()], wins, ties }
}

/// Strengths are compared with choix, and intervals with scipy.
#[test]
fn ranking_matches_choix_and_scipy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/ranking.json");
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() >= 5);
    for (name, case) in cases {
        let of = |(one, other, won, lost, ties): &(String, String, u64, u64, u64)| {
            tally(one, other, [*won, *lost], *ties)
        };
        let ranking = rank(&case.votes.iter().map(of).collect::<Vec<_>>());
        assert_eq!(ranking.is_connected, case.is_connected, "{name}");
        let voted: Vec<&Ranked> =
            ranking.releases.iter().filter(|ranked| ranked.strength.is_some()).collect();
        assert_eq!(voted.len(), case.strengths.len(), "{name}");
        for ranked in voted {
            let found = ranked.strength.unwrap();
            for (found, said) in
                [found.value, found.lower, found.upper].iter().zip(&case.strengths[&ranked.release])
            {
                assert!((found - said).abs() < 1e-9, "{name}, {}: {found} is not {said}", ranked.release);
            }
        }
    }
}

#[test]
fn winner_ranks_first_and_unvoted_is_unranked() {
    let ranking =
        rank(&[tally("v1", "v2", [9, 1], 2), tally("v3", "v1", [2, 8], 0), tally("v4", "v1", [0, 0], 0)]);
    let names: Vec<&str> = ranking.releases.iter().map(|ranked| ranked.release.as_str()).collect();
    assert_eq!(names, ["v1", "v3", "v2", "v4"]);
    let [first, .., last] = &ranking.releases[..] else { panic!() };
    assert_eq!((first.wins, first.losses, first.ties), (17, 3, 2));
    assert!(first.strength.unwrap().lower > 0.0);
    assert_eq!(last.strength, None);
    assert!(ranking.is_connected);
    let one_sided = rank(&[tally("v1", "v2", [1_000_000, 0], 0)]);
    assert!(!one_sided.is_connected, "it never lost");
    let strength = one_sided.releases[0].strength.unwrap();
    assert!(strength.value.is_finite() && strength.upper.is_finite(), "{strength:?}");
    let nothing = rank(&[]);
    assert!(nothing.releases.is_empty() && !nothing.is_connected);
}

proptest! {
    #[test]
    fn ranking_ignores_vote_and_pair_order(
        votes in vec((0_u8..5, 0_u8..5, 0_u64..50, 0_u64..50, 0_u64..20), 0..12),
    ) {
        let votes: Vec<_> = votes.into_iter().filter(|(one, other, ..)| one != other).collect();
        let name = |number: u8| format!("v{number}");
        let of: Vec<Tally> =
            votes.iter().map(|(one, other, won, lost, ties)| tally(&name(*one), &name(*other), [*won, *lost], *ties)).collect();
        let turned: Vec<Tally> =
            votes.iter().rev().map(|(one, other, won, lost, ties)| tally(&name(*other), &name(*one), [*lost, *won], *ties)).collect();
        let (one, other) = (rank(&of), rank(&turned));
        prop_assert_eq!(one.is_connected, other.is_connected);
        let by_name = |ranking: &Ranking| -> BTreeMap<String, Ranked> {
            ranking.releases.iter().map(|ranked| (ranked.release.clone(), ranked.clone())).collect()
        };
        for (ranked, same) in by_name(&one).into_values().zip(by_name(&other).into_values()) {
            prop_assert_eq!((ranked.wins, ranked.losses, ranked.ties), (same.wins, same.losses, same.ties));
            let (Some(found), Some(again)) = (ranked.strength, same.strength) else { continue };
            prop_assert!((found.value - again.value).abs() < 1e-9);
            prop_assert!(found.lower <= found.value && found.value <= found.upper);
        }
        let sum: f64 = one.releases.iter().filter_map(|ranked| ranked.strength).map(|strength| strength.value).sum();
        prop_assert!(sum.abs() < 1e-9, "{}", sum);
    }
}
