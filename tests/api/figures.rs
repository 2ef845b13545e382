//! Figures of evaluations that are asked for otherwise than they are stored.

use query::{Format, Request, What, Words};
use tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(World::on: figures_are_computed_at_any_threshold);

const DAY: &str = "2026-06-01";

impl Asked<'_> {
    async fn csv(self, scene: &Scene) -> String {
        let (columns, threshold, zero_division) = (Some(self.columns), self.threshold, self.zero_division);
        let words = Words { from: DAY, to: DAY, columns, threshold, zero_division, ..Words::default() };
        let request = Request::parse(What::Evaluations, &words).unwrap();
        let mut answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
        assert_eq!(answer.cut.is_some(), threshold.is_some(), "only what is computed from events has a cut");
        let mut text = Vec::new();
        Format::Csv.write(&mut answer.frame, &mut text).unwrap();
        String::from_utf8(text).unwrap().lines().nth(1).unwrap().to_owned()
    }
}

/// What is asked of the only release.
#[derive(Clone, Copy, Default)]
struct Asked<'a> {
    columns: &'a str,
    threshold: Option<&'a str>,
    zero_division: Option<&'a str>,
}

async fn figures_are_computed_at_any_threshold(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many(DAY, "v1", 9, "2026-06-04T12:00:00Z").await;
    scene.observe_many(DAY, "1", 9, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let asked = Asked { columns: "threshold,tp,fp,tn,fn,labelled,unjudged", ..Asked::default() };
    let at = |threshold| Asked { threshold: Some(threshold), ..asked };
    assert_eq!(asked.csv(&scene).await, "0.5,3,2,2,2,9,0");
    assert_eq!(at("0.5").csv(&scene).await, "0.5,3,2,2,2,9,0");
    assert_eq!(at("0.25").csv(&scene).await, "0.25,4,3,1,1,9,0");
    assert_eq!(at("0.95").csv(&scene).await, "0.95,0,0,4,5,9,0");
    let shares = Asked { columns: "precision,recall,f1,specificity", ..at("0.95") };
    assert_eq!(shares.csv(&scene).await, ",0.0,0.0,1.0");
    for (word, expected) in [("null", ",0.0,0.0,1.0"), ("0", "0.0,0.0,0.0,1.0"), ("1", "1.0,0.0,0.0,1.0")] {
        assert_eq!(Asked { zero_division: Some(word), ..shares }.csv(&scene).await, expected, "{word}");
    }
}
