"""What an unmodified MLflow client does, through Almanac's door; `tests/system/mlflow.rs` runs it.

`MLFLOW_TRACKING_URI` names the door. Prints `ok` at the end.
"""

import math
import os
import sys
import tempfile
import warnings

os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
os.environ["MLFLOW_ENABLE_ASYNC_LOGGING"] = "false"
warnings.simplefilter("ignore")

import mlflow
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

client = mlflow.MlflowClient()


def refused(call, code, *words):
    try:
        call()
    except MlflowException as error:
        assert error.error_code == code, (error.error_code, str(error))
        assert all(word in str(error) for word in words), str(error)
    else:
        raise AssertionError(f"{code} was expected")


def a_usual_script():
    experiment = mlflow.set_experiment("depths of trees")
    assert mlflow.set_experiment("depths of trees").experiment_id == experiment.experiment_id
    with mlflow.start_run(run_name="first", tags={"team": "risk"}) as run:
        mlflow.log_param("depth", 6)
        mlflow.log_params({"rate": 0.1, "seed": 7})
        for step in range(5):
            mlflow.log_metric("loss", 1 / (1 + step), step=step)
        mlflow.log_metrics({"auc": 0.8, "gap": math.nan, "top": math.inf}, step=4)
        mlflow.set_tags({"reviewed": "yes", "team": "lending"})
        with mlflow.start_run(nested=True) as child:
            mlflow.log_metric("loss", 2.0)
        refused(lambda: mlflow.log_param("depth", 7), "INVALID_PARAMETER_VALUE", "depth")
    run_id = run.info.run_id
    found = client.get_run(run_id)
    assert (found.info.status, found.info.run_name) == ("FINISHED", "first")
    assert found.info.end_time >= found.info.start_time
    assert found.data.params == {"depth": "6", "rate": "0.1", "seed": "7"}
    assert found.data.metrics["loss"] == 0.2 and math.isnan(found.data.metrics["gap"])
    assert found.data.metrics["top"] == math.inf
    assert (found.data.tags["team"], found.data.tags["reviewed"]) == ("lending", "yes")
    history = client.get_metric_history(run_id, "loss")
    assert [(metric.step, metric.value) for metric in history] == [(step, 1 / (1 + step)) for step in range(5)]
    assert client.get_run(child.info.run_id).data.tags["mlflow.parentRunId"] == run_id
    client.delete_tag(run_id, "reviewed")
    assert "reviewed" not in client.get_run(run_id).data.tags
    return experiment.experiment_id, run_id


def batches():
    run = client.create_run("0")
    metrics = [Metric("loss", step / 7, 1_780_000_000_000 + step, step) for step in range(900)]
    params = [Param(f"p{at}", str(at)) for at in range(50)]
    client.log_batch(run.info.run_id, metrics, params, [RunTag("a b", "c")])
    client.log_batch(run.info.run_id, metrics, params)
    found = client.get_run(run.info.run_id)
    assert (found.data.metrics["loss"], len(found.data.params), found.data.tags["a b"]) == (899 / 7, 50, "c")
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [metric.value for metric in history] == [step / 7 for step in range(900)], "a repeat counts once"
    client.set_terminated(run.info.run_id, "FAILED")
    assert client.get_run(run.info.run_id).info.status == "FAILED"


def datasets():
    run = client.create_run("0", tags={"team": "risk"}).info.run_id
    dataset = lambda digest, **more: Dataset("loans", digest, "s3", '{"uri": "s3://loans/june"}', **more)
    june, july = dataset("d1", schema="[]", profile='{"rows": 3}'), dataset("d2", schema="x" * 60_000)
    client.log_inputs(run, [DatasetInput(june, [InputTag("mlflow.data.context", "training")])])
    client.log_inputs(run, [DatasetInput(july), DatasetInput(june, [InputTag("mlflow.data.context", "eval")])])
    found = client.get_run(run)
    inputs = {given.dataset.digest: given for given in found.inputs.dataset_inputs}
    assert sorted(inputs) == ["d1", "d2"], "each counts once"
    assert dict(inputs["d1"].dataset) == dict(june), dict(inputs["d1"].dataset)
    assert [(tag.key, tag.value) for tag in inputs["d1"].tags] == [("mlflow.data.context", "eval")]
    assert dict(inputs["d2"].dataset) == dict(july), "what has no room in one tag stands in several"
    assert found.data.tags["team"] == "risk" and not any("dataset" in name for name in found.data.tags)
    of_june = client.search_runs(["0"], "dataset.name = 'loans' AND datasets.digest = 'd1' AND dataset.context = 'eval'")
    # The script may have run before.
    assert run in [found.info.run_id for found in of_june]


def searches():
    experiment = client.create_experiment("searched", tags={"kind": "test"})
    for at in range(12):
        run = client.create_run(experiment, run_name=f"run {at}", start_time=1_780_000_000_000 + at)
        client.log_metric(run.info.run_id, "score", at / 10)
        client.log_param(run.info.run_id, "parity", "odd" if at % 2 else "even")
    names = lambda runs: [run.info.run_name for run in runs]
    search = lambda filter="", **options: client.search_runs([experiment], filter, **options)
    assert names(search()) == [f"run {at}" for at in reversed(range(12))]
    assert names(search("metrics.score > 0.75 and params.parity = 'odd'")) == ["run 11", "run 9"]
    assert names(search("attributes.run_name IN ('run 3', 'run 4')", order_by=["metrics.score ASC"])) == ["run 3", "run 4"]
    assert names(search("tags.mlflow.runName LIKE 'run 1%'", order_by=["params.parity", "metrics.score DESC"])) == [
        "run 10", "run 11", "run 1",
    ]
    assert len(client.search_runs([experiment] * 3)) == 12, "each counts once"
    paged, token = [], None
    while token != "":
        page = search(max_results=5, page_token=token)
        paged += names(page)
        token = page.token or ""
    assert paged == [f"run {at}" for at in reversed(range(12))]
    refused(lambda: search("metrics.score >"), "INVALID_PARAMETER_VALUE")
    refused(lambda: search("attributes.foo = 'x'"), "INVALID_PARAMETER_VALUE", "foo")
    refused(lambda: search(order_by=["foo"]), "INVALID_PARAMETER_VALUE", "foo")
    client.delete_run(search("attributes.run_name = 'run 0'")[0].info.run_id)
    gone = search(run_view_type=ViewType.DELETED_ONLY)[0].info.run_id
    for change in [
        lambda: client.log_metric(gone, "score", 1.0),
        lambda: client.log_param(gone, "depth", 6),
        lambda: client.set_tag(gone, "team", "risk"),
        lambda: client.log_batch(gone, [Metric("score", 1.0, 1_780_000_000_000, 1)]),
        lambda: client.set_terminated(gone),
    ]:
        refused(change, "INVALID_PARAMETER_VALUE", "archived")
    assert len(search()) == 11 and names(search(run_view_type=ViewType.DELETED_ONLY)) == ["run 0"]
    assert [found.name for found in client.search_experiments(filter_string="tags.kind = 'test'")] == ["searched"]
    named = [found.name for found in client.search_experiments(order_by=["name DESC"])]
    assert named == sorted(named, reverse=True), named
    refused(lambda: client.search_experiments(order_by=["colour"]), "INVALID_PARAMETER_VALUE", "colour")
    client.delete_experiment(experiment)
    assert experiment not in [found.experiment_id for found in client.search_experiments()]
    refused(lambda: client.create_run(experiment), "INVALID_STATE")
    client.restore_experiment(experiment)
    client.set_experiment_tag(experiment, "kind", "other")
    client.set_experiment_tag(experiment, "owner", "ann")
    client.delete_experiment_tag(experiment, "owner")
    assert client.get_experiment(experiment).tags == {"kind": "other"}
    assert client.get_experiment_by_name("searched").experiment_id == experiment


def models(run_id):
    client.create_registered_model("risk", tags={"almanac.task": "binary"}, description="Who defaults.")
    refused(lambda: client.create_registered_model("risk"), "RESOURCE_ALREADY_EXISTS")
    first = client.create_model_version("risk", "s3://models/risk/1", run_id, tags={"by": "ann"})
    second = client.create_model_version("risk", "s3://models/risk/2")
    assert (first.version, second.version, first.run_id) == ("1", "2", run_id), (first, second)
    client.set_registered_model_alias("risk", "champion", "1")
    client.set_registered_model_alias("risk", "champion", "2")
    assert client.get_model_version_by_alias("risk", "champion").version == "2"
    assert client.get_registered_model("risk").aliases == {"champion": "2"}
    found = client.get_model_version("risk", "1")
    assert (found.source, found.tags, found.aliases) == ("s3://models/risk/1", {"by": "ann"}, [])
    assert [version.version for version in client.search_model_versions("name = 'risk'")] == ["2", "1"]
    by_number = client.search_model_versions("name = 'risk'", order_by=["version_number ASC"])
    assert [version.version for version in by_number] == ["1", "2"]
    assert [model.name for model in client.search_registered_models()] == ["risk"]
    client.delete_registered_model_alias("risk", "champion")
    refused(lambda: client.get_model_version_by_alias("risk", "champion"), "RESOURCE_DOES_NOT_EXIST")
    refused(lambda: client.get_model_version("risk", "3"), "RESOURCE_DOES_NOT_EXIST")
    noted(run_id)
    stages()
    deleted()


def noted(run_id):
    client.set_registered_model_tag("risk", "team", "lending")
    client.set_registered_model_tag("risk", "spare", "x")
    client.delete_registered_model_tag("risk", "spare")
    assert client.update_registered_model("risk", "Who pays late.").description == "Who pays late."
    found = client.get_registered_model("risk")
    assert (found.tags, found.description) == ({"almanac.task": "binary", "team": "lending"}, "Who pays late.")
    client.set_model_version_tag("risk", "1", "reviewed", "yes")
    client.delete_model_version_tag("risk", "1", "by")
    assert client.update_model_version("risk", "1", "The first.").description == "The first."
    found = client.get_model_version("risk", "1")
    assert (found.tags, found.description, found.run_id) == ({"reviewed": "yes"}, "The first.", run_id)
    assert [version.version for version in client.search_model_versions("tags.reviewed = 'yes'")] == ["1"]
    refused(lambda: client.set_model_version_tag("risk", "9", "a", "b"), "RESOURCE_DOES_NOT_EXIST")
    refused(lambda: client.update_registered_model("none", "x"), "RESOURCE_DOES_NOT_EXIST")


def stages():
    move = lambda stage: client.transition_model_version_stage("risk", "1", stage)
    refused(lambda: move("Production"), "INVALID_PARAMETER_VALUE", "set_registered_model_alias")
    refused(lambda: move("Live"), "INVALID_PARAMETER_VALUE", "Invalid Model Version stage: Live")
    assert move("None").current_stage == "None"
    assert client.get_latest_versions("risk", ["Production"]) == []
    assert [version.version for version in client.get_latest_versions("risk")] == ["2"]


def deleted():
    client.create_registered_model("spare")
    for at in range(3):
        client.create_model_version("spare", f"s3://models/spare/{at}")
    client.delete_model_version("spare", "2")
    refused(lambda: client.get_model_version("spare", "2"), "RESOURCE_DOES_NOT_EXIST")
    assert [version.version for version in client.search_model_versions("name = 'spare'")] == ["3", "1"]
    client.delete_model_version("spare", "3")
    assert client.create_model_version("spare", "s3://models/spare/3").version == "4", "a number is given once"
    client.delete_registered_model("spare")
    refused(lambda: client.get_registered_model("spare"), "RESOURCE_DOES_NOT_EXIST")
    # What was live somewhere has a history, which is not deleted by a call.
    refused(lambda: client.delete_model_version("risk", "2"), "RESOURCE_CONFLICT", "archive it first")
    assert client.get_model_version("risk", "2").version == "2"
    # A version that stays keeps the ones before it.
    client.create_registered_model("half")
    for at in range(2):
        client.create_model_version("half", f"s3://models/half/{at}")
    client.set_registered_model_alias("half", "champion", "2")
    refused(lambda: client.delete_registered_model("half"), "RESOURCE_CONFLICT", "is live in champion; retire it first")
    assert [version.version for version in client.search_model_versions("name = 'half'")] == ["2", "1"]


def what_is_not_there(run_id):
    refused(lambda: client.get_run("0" * 27), "RESOURCE_DOES_NOT_EXIST", "not found")
    refused(lambda: client.log_metric("0" * 32, "a", 1.0), "RESOURCE_DOES_NOT_EXIST")
    refused(lambda: client.get_experiment("17"), "RESOURCE_DOES_NOT_EXIST")
    assert client.get_experiment_by_name("never made") is None
    refused(lambda: client.rename_registered_model("risk", "other"), "ENDPOINT_NOT_FOUND")
    refused(lambda: client.rename_experiment("0", "other"), "INVALID_PARAMETER_VALUE", "never changes")
    assert client.list_artifacts(run_id) == []
    try:
        client.log_text(run_id, "text", "a.txt")
    except Exception as error:
        assert "Almanac keeps no artifacts" in str(error), str(error)
    else:
        raise AssertionError("an artifact was taken")


def autologging():
    import numpy
    from sklearn.linear_model import LogisticRegression

    # Almanac keeps no artifacts, but says where they are.
    location = os.path.join(tempfile.mkdtemp(), "artifacts")
    mlflow.set_experiment(experiment_id=client.create_experiment("autologged", artifact_location=location))
    mlflow.sklearn.autolog(log_models=False, silent=True)
    with mlflow.start_run() as run:
        LogisticRegression(C=0.5).fit(numpy.array([[0.0], [1.0], [2.0], [3.0]]), numpy.array([0, 0, 1, 1]))
    found = client.get_run(run.info.run_id)
    assert found.data.params["C"] == "0.5", found.data.params
    assert found.data.metrics["training_accuracy_score"] == 1.0, found.data.metrics
    assert found.info.artifact_uri.startswith(location) and client.list_artifacts(run.info.run_id)
    assert found.data.tags["estimator_name"] == "LogisticRegression"
    assert [given.dataset.name for given in found.inputs.dataset_inputs] == ["dataset"], "what it was fitted on"


def logged_models():
    import numpy
    from sklearn.linear_model import LogisticRegression

    location = os.path.join(tempfile.mkdtemp(), "artifacts")
    experiment = client.create_experiment("logged", artifact_location=location)
    mlflow.set_experiment(experiment_id=experiment)
    mlflow.sklearn.autolog(silent=True)
    with mlflow.start_run() as run:
        LogisticRegression(C=0.5).fit(numpy.array([[0.0], [1.0], [2.0], [3.0]]), numpy.array([0, 0, 1, 1]))
    mlflow.sklearn.autolog(disable=True)
    found = client.get_run(run.info.run_id)
    assert found.info.status == "FINISHED" and found.data.metrics["training_accuracy_score"] == 1.0, found
    assert not any("almanac.model" in name for name in found.data.tags), found.data.tags
    (model,) = client.search_logged_models([experiment], "name = 'model'")
    assert (model.status, model.source_run_id) == ("READY", run.info.run_id), model.to_dictionary()
    assert model.params["C"] == "0.5" and model.artifact_location.startswith(location), model.to_dictionary()
    assert [output.model_id for output in found.outputs.model_outputs] == [model.model_id]
    assert len(client.get_metric_history(run.info.run_id, "training_accuracy_score")) == 1
    client.set_logged_model_tags(model.model_id, {"team": "risk", "spare": "x"})
    client.delete_logged_model_tag(model.model_id, "spare")
    assert client.get_logged_model(model.model_id).tags["team"] == "risk"
    assert "spare" not in client.get_logged_model(model.model_id).tags
    version = mlflow.register_model(f"runs:/{run.info.run_id}/model", "logged")
    assert version.source == model.artifact_location, version
    loaded = mlflow.sklearn.load_model("models:/logged/1")
    assert list(loaded.predict(numpy.array([[0.0], [3.0]]))) == [0, 1]
    client.log_metric(run.info.run_id, "judged", 0.75, model_id=model.model_id)
    metrics = client.get_logged_model(model.model_id).metrics
    assert ("judged", 0.75, run.info.run_id) in [(one.key, one.value, one.run_id) for one in metrics], metrics
    client.delete_logged_model(model.model_id)
    refused(lambda: client.get_logged_model(model.model_id), "RESOURCE_DOES_NOT_EXIST")
    assert list(client.search_logged_models([experiment])) == []
    refused(lambda: client.get_logged_model("m-none"), "RESOURCE_DOES_NOT_EXIST")
    nowhere = client.create_run("0").info
    refused(
        lambda: client.create_logged_model("0", source_run_id=nowhere.run_id), "INVALID_PARAMETER_VALUE", "--mlflow-artifacts"
    )


experiment, run = a_usual_script()
batches()
datasets()
searches()
models(run)
what_is_not_there(run)
if "sklearn" in sys.argv:
    autologging()
    logged_models()
print("ok")
