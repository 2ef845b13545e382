"""MLflow's client: logs metrics to an address, and prints rows a second by batch and by single call, as JSON.

`mlflow_log.py URI BATCHED SINGLE`, where the URI is a folder (`file:///...`), for which MLflow needs no server, or the
address of a server.
"""

import json
import os
import sys
import time

os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")

import mlflow  # noqa: E402
from mlflow.entities import Metric  # noqa: E402

uri, batched, single = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = mlflow.MlflowClient(tracking_uri=uri)
run = client.create_run(client.create_experiment(f"bench {time.time_ns()}")).info.run_id
metrics = [Metric("score", step % 1000 / 1000, 1_780_000_000_000 + step, step) for step in range(batched + single)]

client.log_batch(run, metrics=metrics[:10])
began = time.perf_counter()
for start in range(0, batched, 1000):
    client.log_batch(run, metrics=metrics[start : start + 1000])
batch_rate = batched / (time.perf_counter() - began)
began = time.perf_counter()
for metric in metrics[batched:]:
    client.log_metric(run, metric.key, metric.value, metric.timestamp, metric.step)
print(json.dumps({"batch": batch_rate, "single": single / (time.perf_counter() - began)}))
