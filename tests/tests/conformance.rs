//! The conformance suite on the engines.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// The SQLite engine, always.
mod sqlite {
    use std::sync::Arc;

    use event::Timestamp;
    use table::sqlite::SqliteTable;
    use tests::conformance::{Subject, TestClock};

    async fn subject() -> Subject {
        let folder = tempfile::tempdir().expect("a folder for the file");
        let clock = TestClock::new(Timestamp::parse("2026-01-15T12:00:00.5Z").expect("a time"));
        let table = SqliteTable::open(&folder.path().join("log.db"), clock.clock()).expect("a new file");
        Subject { table: Arc::new(table), clock, scope: "suite".to_owned(), keep: Box::new(folder) }
    }

    tests::conformance!(subject);
}

/// A table whose calls are measured is a table like any other.
mod measured {
    use std::sync::Arc;

    use event::Timestamp;
    use table::{Measured, sqlite::SqliteTable};
    use tests::{
        between::Between,
        conformance::{Subject, TestClock},
    };

    async fn subject() -> Subject {
        let folder = tempfile::tempdir().expect("a folder for the file");
        let clock = TestClock::new(Timestamp::parse("2026-01-15T12:00:00.5Z").expect("a time"));
        let table = SqliteTable::open(&folder.path().join("log.db"), clock.clock()).expect("a new file");
        let table = Measured::over(Arc::new(table), "sqlite");
        Subject { table, clock, scope: "suite".to_owned(), keep: Box::new(folder) }
    }

    tests::conformance!(subject);

    #[tokio::test]
    async fn it_takes_items_as_large_as_the_table_below() {
        let subject = subject().await;
        let small = Between::new(subject.table, |_| None).items_of(1_000);
        assert_eq!(Measured::over(Arc::new(small), "sqlite").item_bytes(), 1_000);
    }
}

/// The DynamoDB engine, on Amazon's emulator; a fresh table for each check.
mod dynamodb_local {
    use std::sync::Arc;

    use event::{Clock, Timestamp};
    use table::dynamodb::{self, DynamoTable};
    use tests::{
        conformance::{Subject, TestClock},
        local::fresh_table,
    };

    async fn subject() -> Subject {
        let clock = TestClock::new(Timestamp::parse("2026-01-15T12:00:00.5Z").expect("a time"));
        let config = fresh_table(clock.clock());
        dynamodb::create(&config).await.expect("a new table");
        let table = DynamoTable::connect(config).await.expect("the table");
        Subject { table: Arc::new(table), clock, scope: "suite".to_owned(), keep: Box::new(()) }
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
