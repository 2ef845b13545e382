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
        "Always 1; the label is the version.";
    HTTP_SECONDS: Shape::Histogram(SECONDS), Every, "almanac_http_request_duration_seconds" ["method", "route", "status"],
        "Time until an answer was ready; `status` is a class (2xx to 5xx).";
    HTTP_RESPONSES: COUNTER, Every, "almanac_http_responses_total" ["status"],
        "Answers.";
    HTTP_IN_FLIGHT: GAUGE, Every, "almanac_http_requests_in_flight" [],
        "Requests under way.";
    HTTP_REQUEST_BYTES: COUNTER, Every, "almanac_http_request_bytes_total" [],
        "Bytes of request bodies, as declared, else as received.";
    HTTP_RESPONSE_BYTES: COUNTER, Every, "almanac_http_response_bytes_total" [],
        "Bytes of answers' bodies.";
    HTTP_CONNECTIONS: GAUGE, Every, "almanac_http_connections" [],
        "Open connections.";
    LOG_DROPPED: COUNTER, Every, "almanac_log_lines_dropped_total" ["reason"],
        "Log lines dropped: too many waited (full), or standard error refused them (failed).";
    PANICS: COUNTER, Every, "almanac_panics_total" [],
        "Panics (bugs) of any thread; the log has each.";

    TABLE_SECONDS: Shape::Histogram(SECONDS), Every, "almanac_table_call_duration_seconds" ["engine", "operation"],
        "Duration of table calls, with retries and queueing; `changes` waits for changes.";
    TABLE_ERRORS: COUNTER, Every, "almanac_table_errors_total" ["engine", "operation", "error"],
        "Failed table calls; a conflict (unmet condition) is often no fault.";
    TABLE_IN_FLIGHT: GAUGE, Every, "almanac_table_calls_in_flight" ["engine"],
        "Table calls under way, without waits for changes.";
    TABLE_READ_BYTES: COUNTER, Every, "almanac_table_read_bytes_total" ["engine"],
        "Bytes of items read.";
    TABLE_WRITTEN_BYTES: COUNTER, Every, "almanac_table_written_bytes_total" ["engine"],
        "Bytes of items to be written.";

    GATE_IN_FLIGHT: GAUGE, Ingest, "almanac_gate_requests_in_flight" ["size"],
        "Appends under way: large with a slot, large without one (reading), small.";
    GATE_WAITING: GAUGE, Ingest, "almanac_gate_requests_waiting" [],
        "Large appends waiting for a slot.";
    GATE_BYTES: GAUGE, Ingest, "almanac_gate_body_bytes" [],
        "Bytes of bodies in memory.";
    GATE_REFUSED: COUNTER, Ingest, "almanac_gate_refused_total" ["reason"],
        "Appends turned away: too many of a workspace, too many or too long without a slot (service), stopping.";
    QUOTA_REFUSED: COUNTER, Ingest, "almanac_quota_refused_total" ["of", "limit"],
        "Appends beyond a quota of their workspace or token.";
    GATE_WAIT_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_gate_wait_seconds" [],
        "Wait of large appends for a slot.";
    APPEND_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_append_duration_seconds" ["kind"],
        "Time from a batch being read until durable.";
    APPEND_BATCHES: COUNTER, Ingest, "almanac_append_batches_total" ["kind", "outcome"],
        "Batches stored, replayed (stored before), refused or failed.";
    APPEND_ROWS: COUNTER, Ingest, "almanac_append_rows_total" ["kind", "outcome"],
        "Events stored, replayed or refused (bad rows of refused batches).";
    APPEND_WAITING: GAUGE, Ingest, "almanac_append_batches_waiting" [],
        "Batches waiting for their turn at a log's end.";
    APPEND_COMMIT_SECONDS: Shape::Histogram(SECONDS), Ingest, "almanac_append_commit_duration_seconds" [],
        "Time to bring a turn's batches into a log, with conflicts.";
    APPEND_COMMIT_BATCHES: Shape::Histogram(TOGETHER), Ingest, "almanac_append_commit_batches" [],
        "Batches in one turn.";
    APPEND_CONFLICTS: COUNTER, Ingest, "almanac_append_conflicts_total" [],
        "Log ends taken by another writer; the append looked again.";
    APPEND_SEGMENTS: COUNTER, Ingest, "almanac_append_segments_total" ["kind"],
        "Segments written.";
    APPEND_SEGMENT_BYTES: COUNTER, Ingest, "almanac_append_segment_bytes_total" ["kind"],
        "Bytes of their packed events.";

    INGEST_UNRECORDED: COUNTER, Ingest, "almanac_ingest_unrecorded_total" [],
        "Stored batches of release events not recorded as live at once; the projector does it.";

    SEGMENT_CACHE_SEGMENTS: COUNTER, Projector, "almanac_segment_cache_segments_total" ["outcome"],
        "Segments for the projector of ingest's process: taken from memory, missed (read), no_room (not kept), too_old (forgotten).";
    SEGMENT_CACHE_BYTES: GAUGE, Projector, "almanac_segment_cache_bytes" [],
        "Bytes of events handed over but not folded.";

    PROJECTOR_DIRTY_DAYS: GAUGE, Projector, "almanac_projector_dirty_days" [],
        "Days not folded yet.";
    PROJECTOR_LAG_SEGMENTS: GAUGE, Projector, "almanac_projector_lag_segments" [],
        "Segments announced but not folded.";
    PROJECTOR_LAG_SECONDS: GAUGE, Projector, "almanac_projector_lag_seconds" [],
        "Wait of the oldest unfolded day.";
    PROJECTOR_UNMATCHED_DAYS: GAUGE, Projector, "almanac_projector_unevaluated_days" [],
        "Days folded but not evaluated.";
    PROJECTOR_LEASES: GAUGE, Projector, "almanac_projector_leases_held" [],
        "Shards of the feed read under a lease.";
    PROJECTOR_HEARTBEAT_AGE: GAUGE, Projector, "almanac_projector_heartbeat_age_seconds" [],
        "Time since its last heartbeat.";
    PROJECTOR_CHECKPOINT_AGE: GAUGE, Projector, "almanac_projector_checkpoint_age_seconds" [],
        "Longest wait of a checkpoint to move; it waits for evaluations as well.";
    PROJECTOR_FOLD_AGE: GAUGE, Projector, "almanac_projector_fold_age_seconds" [],
        "Time since the first try of the oldest fold that has not succeeded; 0 when there is none.";
    PROJECTOR_FEED_AGE: GAUGE, Projector, "almanac_projector_feed_age_seconds" [],
        "Longest silence of a shard (an empty answer ends it), or of the list of shards.";
    PROJECTOR_SWEEP_AGE: GAUGE, Projector, "almanac_projector_sweep_age_seconds" [],
        "Time since the last sweep; 0 without the sweep's lease.";
    PROJECTOR_SWEPT_BEHIND: GAUGE, Projector, "almanac_projector_swept_behind_segments" [],
        "Segments that the last sweep found behind.";
    PROJECTOR_FIRING: GAUGE, Projector, "almanac_alert_rules_firing" [],
        "Firing alert rules, as last judged (absent before); 0 without the sweep's lease.";
    PROJECTOR_FIRING_RULE: GAUGE, Projector, "almanac_alert_rule_firing" ["workspace", "rule"],
        "1 for each firing alert rule, else absent. At most 64 of a workspace, 1,024 in all.";
    PROJECTOR_WAITING: GAUGE, Projector, "almanac_unmatched_outcomes" [],
        "Undated outcomes waiting for predictions, as last counted; 0 without the sweep's lease.";
    PROJECTOR_DELIVERIES: COUNTER, Projector, "almanac_webhook_deliveries_total" ["outcome"],
        "Transitions posted to webhooks: delivered, failed (tried again later), given_up.";
    PROJECTOR_DEAD_LETTERS: GAUGE, Projector, "almanac_projector_dead_letters" [],
        "Segments that stop a log or a day's evaluation, and unwritable projections, as last counted; 0 without the sweep's lease.";
    PROJECTOR_DEAD_LETTERS_FOUND: COUNTER, Projector, "almanac_projector_dead_letters_total" [],
        "Undecodable segments and unwritable projections found by this process.";
    PROJECTOR_SWEEPS: COUNTER, Projector, "almanac_projector_sweeps_total" [],
        "Sweeps of all workspaces.";
    PROJECTOR_SEGMENTS: COUNTER, Projector, "almanac_projector_segments_folded_total" [],
        "Segments folded.";
    PROJECTOR_ROWS: COUNTER, Projector, "almanac_projector_rows_folded_total" ["kind"],
        "Events folded.";
    PROJECTOR_EVALUATED: COUNTER, Projector, "almanac_projector_rows_evaluated_total" [],
        "Rows joined in evaluations.";
    PROJECTOR_DECODED_BYTES: COUNTER, Projector, "almanac_projector_decoded_bytes_total" [],
        "Bytes of packed events unpacked for folding.";
    PROJECTOR_FOLD_SECONDS: Shape::Histogram(SECONDS), Projector, "almanac_projector_fold_duration_seconds" [],
        "Time to fold and write a day's new events.";
    PROJECTOR_EVALUATION_SECONDS: Shape::Histogram(SECONDS), Projector, "almanac_projector_evaluation_duration_seconds" [],
        "Time to evaluate and write a day.";
    PROJECTOR_UNRECORDED: COUNTER, Projector, "almanac_projector_unrecorded_total" [],
        "Segments of release events not recorded as live; each sweep tries again.";
    PROJECTOR_MERGED: COUNTER, Projector, "almanac_projector_merged_items_total" [],
        "Items written in place of many small segments.";
    PROJECTOR_MERGED_AWAY: COUNTER, Projector, "almanac_projector_merged_away_items_total" [],
        "Items of small segments deleted after merging.";
    PROJECTOR_PANICS: COUNTER, Projector, "almanac_projector_panics_total" [],
        "Panics caught in folding or evaluating; each stops only its day or segment.";
    PROJECTOR_RETRIES: COUNTER, Projector, "almanac_projector_cas_retries_total" [],
        "Days folded or evaluated again after another's write.";

    QUERY_SECONDS: Shape::Histogram(SECONDS), Query, "almanac_query_duration_seconds" ["what"],
        "Time to read and compute an answer, without writing it.";
    QUERY_ROWS: COUNTER, Query, "almanac_query_rows_total" ["what"],
        "Rows of answers.";
    QUERY_DECODED_BYTES: COUNTER, Query, "almanac_query_decoded_bytes_total" [],
        "Bytes of packed events unpacked for answers.";
    QUERY_HELD_BYTES: GAUGE, Query, "almanac_query_held_bytes" [],
        "Bytes that queries hold, by their own count: read, computed, and answers not taken yet.";
    QUERY_REFUSED: COUNTER, Query, "almanac_query_refused_total" ["why"],
        "Queries turned away: `busy` (too many, or too much held), `too_large` (more than all may hold).";
    QUERY_LEFT_OUT: COUNTER, Query, "almanac_query_segments_left_out_total" ["why"],
        "Segments that answers lack: `unreadable`, or `skipped` by an operator.";
    MODEL_METRIC: GAUGE, Query, "almanac_model_metric" ["workspace", "model", "release", "environment", "metric"],
        "Main metrics of each live release on its latest whole day that has labels. At most 1,000; with `--model-metrics`, read every minute.";
    MODEL_LABELLED: GAUGE, Query, "almanac_model_labelled" ["workspace", "model", "release", "environment"],
        "Labelled predictions of that day.";
    MODEL_MATURITY: GAUGE, Query, "almanac_model_maturity" ["workspace", "model", "release", "environment"],
        "Share of its predictions that have outcomes.";

    SQLITE_COMMIT_SECONDS: Shape::Histogram(SECONDS), Sqlite, "almanac_sqlite_commit_duration_seconds" [],
        "Time until commits were on the disk.";
    SQLITE_COMMIT_REQUESTS: Shape::Histogram(TOGETHER), Sqlite, "almanac_sqlite_commit_requests" [],
        "Requests in one commit.";
    SQLITE_COMMIT_BYTES: Shape::Histogram(BYTES), Sqlite, "almanac_sqlite_commit_bytes" [],
        "Bytes of items in one commit, each request rounded up to 1 KiB.";
    SQLITE_WAITING: GAUGE, Sqlite, "almanac_sqlite_writes_waiting" [],
        "Requests waiting for their commit.";
    SQLITE_READER_WAIT: Shape::Histogram(SECONDS), Sqlite, "almanac_sqlite_reader_wait_seconds" [],
        "Wait of reads for a connection.";
    SQLITE_FILE_BYTES: GAUGE, Sqlite, "almanac_sqlite_file_bytes" ["file"],
        "Bytes of the file (`db`) and its write-ahead log (`wal`).";

    DYNAMODB_UNITS: COUNTER, Dynamodb, "almanac_dynamodb_consumed_units_total" ["mode", "operation"],
        "Read and write units reported by DynamoDB, which leaves out those of refused writes.";
    DYNAMODB_FAILED: COUNTER, Dynamodb, "almanac_dynamodb_failed_attempts_total" ["reason"],
        "Failed attempts of calls: throttled, unanswered, refused (unmet condition), other.";
    DYNAMODB_RETRIES: COUNTER, Dynamodb, "almanac_dynamodb_retries_total" [],
        "Repeated attempts.";

    PROCESS_MEMORY: GAUGE, Linux, "process_resident_memory_bytes" [],
        "Resident memory.";
    PROCESS_FILES: GAUGE, Linux, "process_open_fds" [],
        "Open files and sockets.";
    PROCESS_MAX_FILES: GAUGE, Linux, "process_max_fds" [],
        "Limit of open files and sockets.";
    PROCESS_THREADS: GAUGE, Linux, "process_threads" [],
        "Threads.";
    PROCESS_CPU: COUNTER, Linux, "process_cpu_seconds_total" [],
        "Processor time, in whole seconds.";
    PROCESS_START: GAUGE, Every, "process_start_time_seconds" [],
        "Start of the process, in seconds since 1970.";
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
