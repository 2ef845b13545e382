//! The conformance suite on the engines.

use std::{fs, path::Path};

/// The SQLite engine, always.
mod sqlite {
    use tests::{conformance::Subject, engine::Engine};

    async fn subject() -> Subject {
        Subject::on(Engine::Sqlite).await
    }

    tests::conformance!(subject);
}

/// The store is a table like any other.
mod store {
    use std::sync::Arc;

    use log::store::Store;
    use table::Table;
    use tests::{between::Between, conformance::Subject, engine::Engine};

    async fn subject() -> Subject {
        Subject::on(Engine::Sqlite).await.under(|table| Store::measured(table, "sqlite"))
    }

    tests::conformance!(subject);

    #[tokio::test]
    async fn it_takes_items_that_leave_room_for_the_keys_of_lanes() {
        let subject = subject().await;
        let small = Between::new(subject.table, |_| None).items_of(1_000);
        assert_eq!(Store::over(Arc::new(small)).item_bytes(), 997);
    }
}

/// The DynamoDB engine, on Amazon's emulator; a fresh table for each check.
mod dynamodb_local {
    use event::Clock;
    use tests::{conformance::Subject, engine::Engine};

    async fn subject() -> Subject {
        Subject::on(Engine::DynamodbLocal).await
    }

    tests::conformance!(subject);

    /// Whatever the clock says that the engine was opened with.
    #[tokio::test]
    async fn the_time_is_that_of_its_answers() {
        let subject = subject().await;
        let told = subject.table.engine_time().expect("it has answered when it was looked at").micros();
        let now = Clock::system().now().micros();
        assert!((now - 10_000_000..now + 1_000_000).contains(&told), "{told} at {now}");
    }
}

/// A check that is written must stand in the list, or no engine runs it.
#[test]
fn no_check_is_left_out_in_silence() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let list = fs::read_to_string(folder.join("suite.rs")).unwrap();
    let listed = |name: &str| {
        let lines = list.lines().map(str::trim);
        lines.into_iter().any(|line| line == name || line.starts_with(&format!("{name}: \"")))
    };
    let mut checks = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = line.split('(').next().unwrap_or_default();
            assert!(listed(name), "`{name}` stands in no list of tests/src/conformance/suite.rs");
            checks += 1;
        }
    }
    assert!(checks > 40, "only {checks} checks");
}
