//! Callers of a table that fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use event::ErrorKind;
use tests::hooked::{Asked, Hooked, Turn};

use super::*;

on_both_engines!(
    Server::on:
    recording_token_use_never_delays_the_caller,
    caller_read_failure_is_not_reported_as_unknown,
);

async fn recording_token_use_never_delays_the_caller(server: Server) {
    let token = server.token("laptop", None, Limits::default()).await;
    // One try that never ends, and one that fails and is followed by the next one.
    for (turn, tries) in [(Turn::Hang, 1), (Turn::Fail(ErrorKind::Unavailable), 2)] {
        let tried = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tried);
        let table = Hooked::new(Arc::<Counted>::clone(&server.counted), move |asked| match asked {
            Asked::Write(_) => {
                count.fetch_add(1, Ordering::SeqCst);
                turn
            }
            _ => Turn::Pass,
        });
        let access = Access::new(table, server.clock.clock());
        for (seconds, tries) in [(0, 1), (50, 1), (10, tries)] {
            server.clock.forward(seconds);
            access.caller(Some(token.text()), None).await.unwrap().unwrap();
            eventually(tries, || async { Ok(tried.load(Ordering::SeqCst)) }).await.unwrap();
        }
    }
}

async fn caller_read_failure_is_not_reported_as_unknown(server: Server) {
    let token = server.token("laptop", None, Limits::default()).await;
    for kind in [ErrorKind::Unavailable, ErrorKind::NotFound] {
        let table = Hooked::new(Arc::<Counted>::clone(&server.counted), move |_| Turn::Fail(kind));
        let read = Access::new(table, server.clock.clock()).caller(Some(token.text()), None).await;
        assert_eq!(read.unwrap_err().kind(), kind);
    }
}
