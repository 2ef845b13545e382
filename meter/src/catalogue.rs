//! All metrics. `docs/telemetry.md` is generated from this list, and a test compares both with the metrics that a running system
//! exposes.

use crate::{Instrument, Of, Shape};

/// Bounds for durations from a tenth of a millisecond to some seconds, in seconds.
const SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
];

/// Bounds for numbers of things done together.
const TOGETHER: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Bounds for sizes, in bytes.
const BYTES: &[f64] =
    &[1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0, 67_108_864.0];

const COUNTER: Shape = Shape::Counter;
const GAUGE: Shape = Shape::Gauge;

/// Defines a constant for each metric, and the list of all.
macro_rules! metrics {
    ($($constant:ident: $shape:expr, $of:ident, $name:literal $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Instrument =
                Instrument { name: $name, shape: $shape, of: Of::$of, labels: &$labels, help: $help };
        )*

        /// Every metric, in the order of the documentation.
        pub const ALL: &[Instrument] = &[$($constant),*];
    };
}

metrics! {
    BUILD_INFO: GAUGE, Every, "almanac_build_info" ["version"],
        "Always 1; the label says which version runs.";
    HTTP_SECONDS: Shape::Histogram(SECONDS), Every, "almanac_http_request_duration_seconds" ["method", "route", "status"],
        "How long requests took until their answer was ready, by route and class of status (2xx to 5xx).";
    HTTP_RESPONSES: COUNTER, Every, "almanac_http_responses_total" ["status"],
        "Answers, by status.";
    HTTP_IN_FLIGHT: GAUGE, Every, "almanac_http_requests_in_flight" [],
        "Requests that are under way.";
    HTTP_REQUEST_BYTES: COUNTER, Every, "almanac_http_request_bytes_total" [],
        "Bytes of bodies of requests, packed or not: as declared, else as they came.";
    HTTP_RESPONSE_BYTES: COUNTER, Every, "almanac_http_response_bytes_total" [],
        "Bytes of bodies of answers.";
    HTTP_CONNECTIONS: GAUGE, Every, "almanac_http_connections" [],
        "Connections that are open.";
    LOG_DROPPED: COUNTER, Every, "almanac_log_lines_dropped_total" ["reason"],
        "Log lines that were dropped: too many waited to be written (full), or standard error did not take them (failed).";
    PANICS: COUNTER, Every, "almanac_panics_total" [],
        "Panics of any thread: bugs, each with a line in the log.";

    TABLE_SECONDS: Shape::Histogram(SECONDS), Every, "almanac_table_call_duration_seconds" ["engine", "operation"],
        "How long calls of the table took, retries and waiting for a turn included; `changes` waits for changes.";
    TABLE_ERRORS: COUNTER, Every, "almanac_table_errors_total" ["engine", "operation", "error"],
        "Calls of the table that failed; a conflict is a condition that did not hold, which is often no fault.";
    TABLE_IN_FLIGHT: GAUGE, Every, "almanac_table_calls_in_flight" ["engine"],
        "Calls of the table that are under way, those that wait for changes left out.";
    TABLE_READ_BYTES: COUNTER, Every, "almanac_table_read_bytes_total" ["engine"],
        "Bytes of items that were read.";
    TABLE_WRITTEN_BYTES: COUNTER, Every, "almanac_table_written_bytes_total" ["engine"],
        "Bytes of items that were to be written.";

    GATE_IN_FLIGHT: GAUGE, Ingest, "almanac_gate_requests_in_flight" ["size"],
        "Appends that are worked on: large ones, of which each has a slot, those that are read or wait without one, and small ones.";
    GATE_WAITING: GAUGE, Ingest, "almanac_gate_requests_waiting" [],
        "Large appends that wait for a slot.";
    GATE_BYTES: GAUGE, Ingest, "almanac_gate_body_bytes" [],
        "Bytes of bodies that are in memory.";
    GATE_REFUSED: COUNTER, Ingest, "almanac_gate_refused_total" ["reason"],
        "Appends that were turned away: too many of their workspace, too many of all or too long without a slot, stopping.";
    QUOTA_REFUSED: COUNTER, Ingest, "almanac_quota_refused_total" ["of", "limit"],
        "Appends that were turned away because a quota of their workspace or token was used up, by limit.";
    GATE_WAIT_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_gate_wait_seconds" [],
        "How long large appends waited for a slot.";
    APPEND_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_append_duration_seconds" ["kind"],
        "How long batches that were read took until they were durable.";
    APPEND_BATCHES: COUNTER, Ingest, "almanac_append_batches_total" ["kind", "outcome"],
        "Batches that were stored, replayed (they had been stored before), refused, or that failed.";
    APPEND_ROWS: COUNTER, Ingest, "almanac_append_rows_total" ["kind", "outcome"],
        "Events that were stored, replayed or refused; of refused batches the bad rows.";
    APPEND_WAITING: GAUGE, Ingest, "almanac_append_batches_waiting" [],
        "Batches that wait for their turn at the end of a log.";
    APPEND_COMMIT_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_append_commit_duration_seconds" [],
        "How long it took to bring the batches of one turn into a log, conflicts included.";
    APPEND_COMMIT_BATCHES: Shape::Histogram(TOGETHER), Ingest, "almanac_append_commit_batches" [],
        "How many batches had one turn together.";
    APPEND_CONFLICTS: COUNTER, Ingest, "almanac_append_conflicts_total" [],
        "How often the end of a log was taken by somebody else, so that the append looked again.";
    APPEND_SEGMENTS: COUNTER, Ingest, "almanac_append_segments_total" ["kind"],
        "Segments that were written.";
    APPEND_SEGMENT_BYTES: COUNTER, Ingest, "almanac_append_segment_bytes_total" ["kind"],
        "Bytes of packed events in them.";

    INGEST_UNRECORDED: COUNTER, Ingest, "almanac_ingest_unrecorded_total" [],
        "Batches of release events that were stored, but not recorded as live at once; the projector does it.";

    SEGMENT_CACHE_SEGMENTS: COUNTER, Projector, "almanac_segment_cache_segments_total" ["outcome"],
        "Segments that ingest hands over to the projector of the same process: taken and not read, missed and read, and those that were not handed over or forgotten (no_room, too_old).";
    SEGMENT_CACHE_BYTES: GAUGE, Projector, "almanac_segment_cache_bytes" [],
        "Bytes of events that are handed over and not folded yet.";

    PROJECTOR_DIRTY_DAYS: GAUGE, Projector, "almanac_projector_dirty_days" [],
        "Days that are not folded yet.";
    PROJECTOR_LAG_SEGMENTS: GAUGE, Projector, "almanac_projector_lag_segments" [],
        "Segments that were told of and are not folded yet.";
    PROJECTOR_LAG_SECONDS: GAUGE, Projector, "almanac_projector_lag_seconds" [],
        "For how long the oldest day that is not folded has waited.";
    PROJECTOR_UNMATCHED_DAYS: GAUGE, Projector, "almanac_projector_unevaluated_days" [],
        "Days that are folded and not evaluated yet.";
    PROJECTOR_LEASES: GAUGE, Projector, "almanac_projector_leases_held" [],
        "Shards of the feed that are read under a lease.";
    PROJECTOR_HEARTBEAT_AGE: GAUGE, Projector, "almanac_projector_heartbeat_age_seconds" [],
        "How long ago its heartbeat was last written.";
    PROJECTOR_CHECKPOINT_AGE: GAUGE, Projector, "almanac_projector_checkpoint_age_seconds" [],
        "For how long the oldest checkpoint has waited to move.";
    PROJECTOR_FEED_AGE: GAUGE, Projector, "almanac_projector_feed_age_seconds" [],
        "For how long the shard that is read worst has told nothing, not even that there is nothing new, or the shards cannot be listed, if that is longer.";
    PROJECTOR_SWEEP_AGE: GAUGE, Projector, "almanac_projector_sweep_age_seconds" [],
        "How long ago all workspaces were swept; 0 where the lease of the sweep is not held.";
    PROJECTOR_SWEPT_BEHIND: GAUGE, Projector, "almanac_projector_swept_behind_segments" [],
        "Segments that the last sweep found behind.";
    PROJECTOR_FIRING: GAUGE, Projector, "almanac_alert_rules_firing" [],
        "Alert rules that fire, as last judged, and none before that; 0 where the lease of the sweep is not held.";
    PROJECTOR_FIRING_RULE: GAUGE, Projector, "almanac_alert_rule_firing" ["workspace", "rule"],
        "1 for each alert rule that fires, by the path of its workspace and its name; none for one that does not, and none of any before a worker has judged. At most 64 rules of a workspace, and 1,024 of all.";
    PROJECTOR_WAITING: GAUGE, Projector, "almanac_unmatched_outcomes" [],
        "Outcomes without a date that wait for their predictions, as last looked for; 0 where the lease of the sweep is not held.";
    PROJECTOR_DELIVERIES: COUNTER, Projector, "almanac_webhook_deliveries_total" ["outcome"],
        "What came of posting transitions of alert rules to webhooks: delivered, failed (and tried again later), given_up.";
    PROJECTOR_DEAD_LETTERS: GAUGE, Projector, "almanac_projector_dead_letters" [],
        "Segments that stop their log or their day's evaluation, and projections that cannot be written, as last counted; 0 where the lease of the sweep is not held.";
    PROJECTOR_DEAD_LETTERS_FOUND: COUNTER, Projector, "almanac_projector_dead_letters_total" [],
        "Segments that this process found to be undecodable, and projections that it could not write.";
    PROJECTOR_SWEEPS: COUNTER, Projector, "almanac_projector_sweeps_total" [],
        "Sweeps of all workspaces.";
    PROJECTOR_SEGMENTS: COUNTER, Projector, "almanac_projector_segments_folded_total" [],
        "Segments that were folded.";
    PROJECTOR_ROWS: COUNTER, Projector, "almanac_projector_rows_folded_total" ["kind"],
        "Events that were folded.";
    PROJECTOR_EVALUATED: COUNTER, Projector, "almanac_projector_rows_evaluated_total" [],
        "Rows that were joined in evaluations.";
    PROJECTOR_DECODED_BYTES: COUNTER, Projector, "almanac_projector_decoded_bytes_total" [],
        "Bytes of packed events that were unpacked to be folded.";
    PROJECTOR_FOLD_SECONDS: Shape::Histogram(SECONDS), Projector, "almanac_projector_fold_duration_seconds" [],
        "How long it took to fold what was new of a day and to write it.";
    PROJECTOR_EVALUATION_SECONDS: Shape::Histogram(SECONDS), Projector, "almanac_projector_evaluation_duration_seconds" [],
        "How long it took to evaluate a day and to write it.";
    PROJECTOR_UNRECORDED: COUNTER, Projector, "almanac_projector_unrecorded_total" [],
        "Segments of release events whose changes of what is live could not be recorded; each sweep tries again.";
    PROJECTOR_MERGED: COUNTER, Projector, "almanac_projector_merged_items_total" [],
        "Items that were written in the place of many small segments of days that are over.";
    PROJECTOR_MERGED_AWAY: COUNTER, Projector, "almanac_projector_merged_away_items_total" [],
        "Items of small segments that were deleted, since such an item holds them.";
    PROJECTOR_PANICS: COUNTER, Projector, "almanac_projector_panics_total" [],
        "Panics that were caught while a day was folded or evaluated; the day or the segment is stopped, all else goes on.";
    PROJECTOR_RETRIES: COUNTER, Projector, "almanac_projector_cas_retries_total" [],
        "Days folded or evaluated again since somebody else wrote meanwhile.";

    QUERY_SECONDS: Shape::Histogram(SECONDS), Query, "almanac_query_duration_seconds" ["what"],
        "How long it took to read and compute what was asked for, without writing the answer.";
    QUERY_ROWS: COUNTER, Query, "almanac_query_rows_total" ["what"],
        "Rows of answers.";
    QUERY_DECODED_BYTES: COUNTER, Query, "almanac_query_decoded_bytes_total" [],
        "Bytes of packed events that were unpacked for answers.";
    QUERY_HELD_BYTES: GAUGE, Query, "almanac_query_held_bytes" [],
        "Bytes that queries hold, as they count them: what was read, what is made of it, and answers that clients have not taken yet.";
    QUERY_REFUSED: COUNTER, Query, "almanac_query_refused_total" ["why"],
        "Queries that were turned away: `busy`, as too many were answered or held too much; `too_large`, as one alone would hold more than all may.";
    QUERY_LEFT_OUT: COUNTER, Query, "almanac_query_segments_left_out_total" ["why"],
        "Segments that answers lack: `unreadable`, or `skipped` by an operator.";

    SQLITE_COMMIT_SECONDS: Shape::Histogram(SECONDS), Sqlite, "almanac_sqlite_commit_duration_seconds" [],
        "How long commits took, until they were on the disk.";
    SQLITE_COMMIT_REQUESTS: Shape::Histogram(TOGETHER), Sqlite, "almanac_sqlite_commit_requests" [],
        "How many requests had one commit together.";
    SQLITE_COMMIT_BYTES: Shape::Histogram(BYTES), Sqlite, "almanac_sqlite_commit_bytes" [],
        "About how many bytes of items commits had, each request rounded up to 1 KiB.";
    SQLITE_WAITING: GAUGE, Sqlite, "almanac_sqlite_writes_waiting" [],
        "Requests that wait for their commit.";
    SQLITE_READER_WAIT: Shape::Histogram(SECONDS), Sqlite, "almanac_sqlite_reader_wait_seconds" [],
        "How long reads waited for one of the connections for reading.";
    SQLITE_FILE_BYTES: GAUGE, Sqlite, "almanac_sqlite_file_bytes" ["file"],
        "Bytes of the file (`db`) and of its write-ahead log (`wal`).";

    DYNAMODB_UNITS: COUNTER, Dynamodb, "almanac_dynamodb_consumed_units_total" ["mode", "operation"],
        "Read and write units as DynamoDB told them. Writes that were refused cost some too, which it does not tell.";
    DYNAMODB_FAILED: COUNTER, Dynamodb, "almanac_dynamodb_failed_attempts_total" ["reason"],
        "Attempts of calls that failed, by reason: throttled, unanswered, refused (a condition did not hold), other.";
    DYNAMODB_RETRIES: COUNTER, Dynamodb, "almanac_dynamodb_retries_total" [],
        "Attempts that were made again.";

    PROCESS_MEMORY: GAUGE, Linux, "process_resident_memory_bytes" [],
        "Memory that is resident.";
    PROCESS_FILES: GAUGE, Linux, "process_open_fds" [],
        "Files and sockets that are open.";
    PROCESS_MAX_FILES: GAUGE, Linux, "process_max_fds" [],
        "The most that may be open.";
    PROCESS_THREADS: GAUGE, Linux, "process_threads" [],
        "Threads.";
    PROCESS_CPU: COUNTER, Linux, "process_cpu_seconds_total" [],
        "Processor time that was used, in whole seconds.";
    PROCESS_START: GAUGE, Every, "process_start_time_seconds" [],
        "When the process started, in seconds since 1970.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "two metrics have one name");
        for Instrument { name, shape, help, labels, .. } in ALL {
            let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(is_plain(name) && labels.iter().all(|label| is_plain(label)), "{name}");
            assert!(name.starts_with("almanac_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), *shape == Shape::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
            if let Shape::Histogram(bounds) = shape {
                assert!(bounds.is_sorted(), "{name}");
            }
        }
    }
}
