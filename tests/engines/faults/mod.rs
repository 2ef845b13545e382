//! The conformance suite with every call failing now and then, and the engine of faults itself.

mod engine;

use std::sync::Arc;

use tests::{
    conformance::Subject,
    engine::{Engine, Fresh},
    faulty::{Faults, FaultyTable, Settled},
};

/// Calls are throttled and slow, indexes lag. The outcome of every call is certain in the end, so
/// the whole suite must hold.
const DELAYS: Faults = Faults { late_index: 2, late_reads: 3, ..Faults::delays(4) };

/// And calls fail without saying whether they were made.
const DOUBTS: Faults = Faults { throttled: 6, slow: 10, ..Faults::doubts(3) };

/// A subject that does what its table must do although everything goes wrong beneath it.
async fn on(engine: Engine, seed: u64, faults: Faults) -> Subject {
    let Subject { table, clock, scope, lost, keep } = Subject::on(engine).await;
    let copy = Fresh::sqlite(clock.clock());
    let faulty = FaultyTable::new(table, seed, faults);
    let faulty = match faults.late_index {
        0 => faulty,
        _ => faulty.indexes_on(Arc::clone(&copy.table)),
    };
    let table = Arc::new(Settled::new(Arc::new(faulty)));
    Subject { table, clock, scope, lost, keep: Box::new((keep, copy)) }
}

/// The suite on an engine, once for each seed.
macro_rules! suites {
    ($engine:ident: delays { $($delays:ident = $delays_seed:literal)* } doubts { $($doubts:ident = $doubts_seed:literal)* }) => {
        $(mod $delays {
            async fn subject() -> tests::conformance::Subject {
                super::super::on(tests::engine::Engine::$engine, $delays_seed, super::super::DELAYS).await
            }
            tests::conformance!(subject);
        })*
        $(mod $doubts {
            async fn subject() -> tests::conformance::Subject {
                super::super::on(tests::engine::Engine::$engine, $doubts_seed, super::super::DOUBTS).await
            }
            tests::conformance!(subject in doubt);
        })*
    };
}

mod sqlite {
    suites!(Sqlite: delays { delays_1 = 1 delays_2 = 2 } doubts { doubts_1 = 1 doubts_2 = 2 doubts_3 = 3 });
}

mod dynamodb_local {
    suites!(DynamodbLocal: delays { delays_1 = 1 } doubts { doubts_1 = 1 });
}
