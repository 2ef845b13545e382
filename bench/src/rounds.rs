//! Rounds: every side does the work once, then every side again, and so on. Other load of the machine affects all of
//! them alike.

use std::collections::BTreeMap;

use crate::samples::Samples;

/// Results of one measurement by name, such as `rows_per_s`.
pub type Readings = BTreeMap<String, f64>;

/// Returns one reading.
pub fn reading(name: &str, value: f64) -> Readings {
    Readings::from([(name.to_owned(), value)])
}

/// A side that does the work.
pub struct Side<'a> {
    name: String,
    measure: Box<dyn FnMut() -> anyhow::Result<Readings> + 'a>,
}

impl<'a> Side<'a> {
    /// Creates the side called `name`, which does the work once in `measure`.
    pub fn new(name: &str, measure: impl FnMut() -> anyhow::Result<Readings> + 'a) -> Self {
        Self { name: name.to_owned(), measure: Box::new(measure) }
    }
}

/// Results of a side in all rounds, or the reason for its failure.
#[derive(Clone, Debug)]
pub struct Found {
    readings: Result<BTreeMap<String, Samples>, String>,
}

impl Found {
    /// Returns the readings called `name`.
    ///
    /// # Errors
    /// The reason why there are none.
    pub fn samples(&self, name: &str) -> Result<Samples, String> {
        let readings = self.readings.as_ref().map_err(Clone::clone)?;
        readings.get(name).cloned().ok_or_else(|| format!("nothing called {name} was measured"))
    }
}

/// Measures all sides in turn, `rounds` times. A side that fails is left out from then on.
pub fn interleave(rounds: usize, mut sides: Vec<Side<'_>>) -> Vec<Found> {
    let mut all: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); sides.len()];
    let mut failed: Vec<Option<String>> = vec![None; sides.len()];
    for round in 1..=rounds {
        for (at, side) in sides.iter_mut().enumerate() {
            if failed[at].is_some() {
                continue;
            }
            eprintln!("  round {round} of {rounds}: {}", side.name);
            match (side.measure)() {
                Ok(readings) => {
                    for (name, value) in readings {
                        all[at].entry(name).or_default().push(value);
                    }
                }
                Err(error) => {
                    eprintln!("  {} is left out: {error:#}", side.name);
                    failed[at] = Some(format!("{}: {error:#}", side.name));
                }
            }
        }
    }
    let found = all.into_iter().zip(failed).map(|(readings, failed)| Found {
        readings: match failed {
            Some(why) => Err(why),
            None => Ok(readings.into_iter().map(|(name, values)| (name, Samples::new(values))).collect()),
        },
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn benchmark_sides_alternate_and_failing_one_is_dropped() {
        let order = RefCell::new(String::new());
        let side = |name: &'static str, fails: bool| {
            let order = &order;
            Side::new(name, move || {
                order.borrow_mut().push_str(name);
                anyhow::ensure!(!fails, "no");
                Ok(reading("s", order.borrow().len() as f64))
            })
        };
        let found = interleave(3, vec![side("a", false), side("b", true), side("c", false)]);
        assert_eq!(*order.borrow(), "abcacac");
        assert_eq!(found[0].samples("s").unwrap().median(), 4.0);
        assert_eq!(found[1].samples("s").unwrap_err(), "b: no");
        assert!(found[2].samples("other").is_err());
    }
}
