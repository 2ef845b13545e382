"""MLflow's client: batch|single URL INPUTS ROWS. The URL is that of MLflow's server or of Almanac's door.

Logs a metric per prediction: rows a second in the best of one and four threads, which share a client and have a run
each; what the client itself used of the processor; how many metrics it logged."""

import concurrent.futures
import sys
import time

import mlflow
from mlflow.entities import Metric

import events

mode, url, inputs, limit = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
BATCH = 1_000

client = mlflow.MlflowClient(tracking_uri=url)
experiment = client.create_experiment("bench")
# Day, key, time in microseconds, release, score: MLflow keeps time, score and a step of them.
metrics = [
    Metric("score", row[4], row[2] // 1_000, step) for step, row in enumerate(events.rows(inputs, "predictions", limit))
]


def log(part):
    run = client.create_run(experiment).info.run_id
    began = time.perf_counter()
    if mode == "batch":
        for start in range(0, len(part), BATCH):
            client.log_batch(run, metrics=part[start : start + BATCH])
    else:
        for metric in part:
            client.log_metric(run, metric.key, metric.value, metric.timestamp, metric.step)
    return began, time.perf_counter(), run


def rate(threads):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        spans = list(pool.map(log, [metrics[at::threads] for at in range(threads)]))
    seconds = max(end for _, end, _ in spans) - min(began for began, _, _ in spans)
    return len(metrics) / seconds, spans


log(metrics[:10])
used = time.process_time()
one, spans = rate(1)
used = (time.process_time() - used) / len(metrics) * 1e6
assert len(client.get_metric_history(spans[0][2], "score")) == len(metrics), "metrics are missing"
four, _ = rate(4)
events.found(
    rows_per_s=max(one, four),
    one_thread=one,
    four_threads=four,
    client_cpu_us=used,
    logged=10 + 2 * len(metrics),
)
