//! What clients send, and bytes that are stored, tried where they are read. A [`Target`] takes any bytes; it panics when Almanac made a
//! mistake, which is a finding.
//!
//! The targets are ordinary code: the unit tests give each its seeds and changes of them. `fuzz/run` builds them with coverage and lets
//! libFuzzer look for more. What it finds becomes a unit test where the mistake was.
#![allow(clippy::unwrap_used, reason = "a panic is a finding")]

mod house;
mod targets;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    path::Path,
    process::{abort, exit},
    sync::{Mutex, OnceLock},
};

pub use targets::TARGETS;

/// Something that reads bytes of others.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it reads.
    pub about: &'static str,
    /// Inputs that are good, or nearly.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that inputs are made of.
    pub words: &'static [&'static str],
    /// Reads an input, and says whether it is good.
    pub take: fn(&[u8]) -> bool,
}

/// The target that is run.
static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

/// What the last panic said, and where. Many are caught on purpose, such as those of decoders of libraries.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// What the last panic said.
pub(crate) fn last_panic() -> String {
    LAST_PANIC.lock().map(|said| said.clone()).unwrap_or_default()
}

/// Chooses the target by `ALMANAC_FUZZ_TARGET`, and writes its seeds and words to the folder `ALMANAC_FUZZ_SEEDS`. Without a
/// target it names all of them, and ends.
pub fn begin() {
    let chosen = std::env::var("ALMANAC_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == chosen) else {
        TARGETS.iter().for_each(|target| println!("{}\t{}", target.name, target.about));
        exit(i32::from(!chosen.is_empty()));
    };
    set_hook(Box::new(|panic| {
        if let Ok(mut said) = LAST_PANIC.lock() {
            *said = panic.to_string();
        }
    }));
    if let Ok(folder) = std::env::var("ALMANAC_FUZZ_SEEDS") {
        write_seeds(target, Path::new(&folder)).expect("the folder of seeds can be written");
    }
    CHOSEN.get_or_init(|| target);
}

/// The seeds in the folder, and beside it the words as libFuzzer reads them.
fn write_seeds(target: &Target, folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (at, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{at}")), seed)?;
    }
    let quoted = |word: &&str| {
        let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    fs::write(folder.with_extension("words"), target.words.iter().map(quoted).collect::<String>())
}

/// Gives an input to the chosen target; ends the process when that panics.
pub fn take(input: &[u8]) {
    let Some(target) = CHOSEN.get() else { return };
    if catch_unwind(AssertUnwindSafe(|| (target.take)(input))).is_err() {
        eprintln!("{}: {}", target.name, last_panic());
        abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chance that is the same in each run (xorshift).
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % bound.max(1)
        }
    }

    fn tried(name: &str) {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        let (seeds, mut chance) = ((target.seeds)(), Chance(1));
        let good = seeds.iter().filter(|seed| (target.take)(seed)).count();
        // Some requests delete what others need.
        assert!(good * 4 > seeds.len(), "{name} takes {good} of its {} seeds", seeds.len());
        let mut refused = 0;
        for seed in seeds.iter().cycle().take(seeds.len().max(40)) {
            let mut changed = seed.clone();
            let at = chance.below(changed.len());
            match chance.below(3) {
                0 => changed.truncate(at),
                1 => changed[at] ^= 1 << chance.below(8),
                _ => {
                    let word = target.words.get(chance.below(target.words.len())).unwrap_or(&"");
                    changed.splice(at..at, word.bytes());
                }
            }
            refused += usize::from(!(target.take)(&changed));
        }
        assert!(refused > 0, "{name} takes everything");
    }

    /// A test for each target, so that they run beside each other.
    macro_rules! each_is_tried {
        ($($name:ident),*) => {
            $(#[test] fn $name() { tried(stringify!($name)); })*

            #[test]
            fn every_target_is_tried() {
                assert_eq!(TARGETS.each_ref().map(|target| target.name), [$(stringify!($name)),*]);
            }
        };
    }

    each_is_tried!(words, metrics, bodies, metadata, imports, segments, headers, paths, sql, mlflow);
}
