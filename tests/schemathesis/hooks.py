"""What Schemathesis cannot know from the document alone.

A schema says what a request looks like, not what there is: which workspace and release exist, which of
two days comes first. Here the document is narrowed to what the test has made, so that a request that
fits it must be accepted and one that does not must be refused.
"""

import datetime
import json
import re

import schemathesis
from hypothesis import strategies as st

# Times that are not in the future, and days that make no window that is too long.
FIRST, LAST = datetime.date(2020, 1, 1), datetime.date(2025, 12, 31)
LONGEST = datetime.timedelta(days=3650)
TIMES = st.datetimes(
    datetime.datetime(2020, 1, 1), datetime.datetime(2025, 12, 31), timezones=st.just(datetime.timezone.utc)
)
schemathesis.openapi.format("date", st.dates(FIRST, LAST).map(str))
schemathesis.openapi.format("date-time", TIMES.map(datetime.datetime.isoformat))

# What there is.
PATH = {"category": "credit", "name": "prod", "workspace": "credit/prod"}
# The same of what stands in paths alone.
ENTITIES = {
    "model": "credit/prod/risk", "configuration": "credit/prod/shallow", "release": "credit/prod/risk@v1",
    "snapshot": "credit/prod/june",
    "user": "ann", "group": "risk", "system": "nightly", "type": "model", "entity": "credit/prod/risk",
    "principal": "user:ann",
}
# What nobody has made may be deleted as often as one likes.
NOBODY = {**{name: "nobody" for name in (*PATH, *ENTITIES)}, "workspace": "credit/nothing", "principal": "user:nobody"}
NOBODY.update(token="nothing", member="user:nobody")
NOBODY.update({name: "credit/prod/nothing" for name in ("model", "configuration", "snapshot", "release")})
SEEN = "2NBs0sLBnJxEcoDLgVnQdJkhEgV:2026-06-02T00:00:00.000000Z/alert/drift/"
RELEASE = {"type": "string", "enum": ["v1"]}
REGISTERED = {
    "release": "v1", "model": "risk", "configuration": "shallow", "environment": "production", "action": "register"
}
# How many bytes a text may have, by field; JSON Schema can count characters only.
MAX_BYTES = {}
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
EVENT_ID = re.compile("[!-~]{1,256}")
# Statements that are admitted, and read the log.
STATEMENTS = [
    "select release, avg(score) from predictions where day between '2026-06-01' and '2026-06-30' group by release",
    "select count(*) from joined where day = '2026-06-01'",
]
# Alert rules of different names.
ALERT_RULES = [
    {"name": "low", "metric": "auc", "release": "v1", "below": 0.7, "clear": 0.72, "min_n": 500, "for": 2, "delay": 3},
    {"name": "moved", "count": "predictions", "moved": 5, "window": 28},
    {"name": "late", "missing": "predictions", "by": "06:00"},
    {"name": "far", "drift": "score", "statistic": "psi", "reference": "2026-04-01..2026-04-30", "above": 0.2},
]
WEBHOOKS = [
    {"name": "ops", "url": "https://alerts.example.com/almanac", "secret": "oncall"},
    {"name": "chat", "url_from": "slack_url", "format": "slack"},
]
# Parameters of which a value that fits the schema is hardly ever one that there is.
UNKNOWN = ("If-Match", "cursor", "after", "read-version", "snapshot", "tag", "bins", "min-completeness", "change")
# Where entities are created.
CREATED = ("/v1/models", "/v1/releases")
# What is asked of a snapshot beside its name; JSON Schema cannot say what goes together.
OF_SNAPSHOT = ("what", "columns", "attributes", "workspace", "name")
# Gates of which each stands alone.
OF_GATES = {"model": "risk", "min_n": 500, "completeness": 0.9, "second_person": True}
# Columns that rollups have only by metric or by feature.
NOT_BY_RELEASE = ("metric", "value_sum", "value_last", "feature")
# What is queried by a window.
QUERIES = (
    "predictions", "outcomes", "metrics", "releases", "joined", "rollups", "evaluations", "classes", "confusion",
    "maturity", "estimates", "slices", "drift", "head-to-head", "challengers",
)
# Formats that are written from data; all others are fuzzed where they are read.
WRITTEN = ("application/json", "application/x-ndjson")


def written_out(node, components):
    """A part of the document without references to what it says once, whose names begin with no capital."""
    if isinstance(node, list):
        return [written_out(one, components) for one in node]
    if not isinstance(node, dict):
        return node
    *_, group, name = ("", "", *str(node.get("$ref", "")).split("/"))
    if name[:1].islower():
        return written_out(components[group][name], components)
    return {key: written_out(value, components) for key, value in node.items()}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    raw_schema.update(written_out(raw_schema, raw_schema["components"]))
    # No release is live, so none is challenged; and news come for as long as they are asked for.
    for path in [path for path in raw_schema["paths"] if path.endswith(("/challengers", "/news"))]:
        del raw_schema["paths"][path]
    # A key that is erased is refused in all that follows.
    for path in [path for path in raw_schema["paths"] if path.endswith("/erasures")]:
        del raw_schema["paths"][path]
    # A review is of predictions that are there, an item of it is had by one, and a link is a secret.
    for path in [path for path in raw_schema["paths"] if "/reviews" in path or path.endswith("/judgements")]:
        del raw_schema["paths"][path]
    for path, item in raw_schema["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", []):
                narrow_parameter(parameter)
            narrow_catalog(path, method, operation)
            contents = operation.get("requestBody", {}).get("content", {})
            for media_type in [name for name in contents if name not in WRITTEN]:
                del contents[media_type]
            for content in contents.values():
                # JSON Schema cannot say that columns are of equal length, so only rows are written.
                choices = content["schema"].get("anyOf", [{}])
                content["schema"] = choices[0] if choices[0].get("type") == "array" else content["schema"]
                # Bodies of 100,001 rows would take the whole time.
                content["schema"].pop("maxItems", None)
    schemas = raw_schema["components"]["schemas"]
    for kind in ("predictions", "metrics"):
        event = schemas[f"Event.{kind}"]
        event = event["allOf"][0] if "allOf" in event else event
        nullable = "null" in event["properties"]["release"]["type"]
        event["properties"]["release"] = {"anyOf": [RELEASE, {"type": "null"}]} if nullable else RELEASE
    for kind in ("predictions", "outcomes", "metrics", "releases"):
        event = schemas[f"Event.{kind}"]
        properties = event["allOf"][0]["properties"] if "allOf" in event else event["properties"]
        MAX_BYTES.update((name, part["maxLength"]) for name, part in properties.items() if "maxLength" in part)
        if "tags" in properties:
            MAX_BYTES["tags"] = properties["tags"]["additionalProperties"]["maxLength"]
    # JSON Schema cannot say which runs there are; what is of no run has no step, and a finite value.
    measured = schemas["Event.metrics"]
    measured = (measured["allOf"][0] if "allOf" in measured else measured)["properties"]
    measured.update(run={"type": "null"}, step={"type": "null"}, value={"type": "number"})
    # Of a release that exists, only the same registration is taken again, and that holds from the beginning.
    release = schemas["Event.releases"]
    for name in ("effective_from", "task", "positive_label", "threshold", "costs", "interval_level", "dimensions", "metrics"):
        release["properties"].pop(name, None)
    for name, value in REGISTERED.items():
        release["properties"][name] = {"type": "string", "enum": [value]}
    release["required"] = sorted({*release["required"], *REGISTERED})


def narrow_catalog(path, method, operation):
    parameters = operation.get("parameters", [])
    # Only features have bins, and nothing is broken down by one.
    parameters = [one for one in parameters if one["in"] == "path" or one["name"] not in UNKNOWN]
    if path.endswith(("/evaluations", "/classes", "/confusion", "/maturity")):
        # No release is live, and what is not live is said of an environment.
        parameters = [one for one in parameters if one["name"] not in ("environment", "shadow")]
    if path.endswith("/maturity"):
        # It counts outcomes, so it goes with nothing by which predictions are judged.
        parameters = [one for one in parameters if one["name"] != "after-prediction"]
    for parameter in parameters:
        if parameter["name"] == "reference":
            # A pattern does not say which days there are.
            parameter["schema"] = {"type": "string", "enum": ["2026-06-01", "2026-06-01..2026-06-30"]}
        if method == "delete" and parameter["in"] == "path":
            parameter["schema"] = {"type": "string", "enum": [NOBODY[parameter["name"]]]}
        elif parameter["name"] == "of":
            of = "credit" if path == "/v1/workspaces" else "credit/prod"
            parameter["schema"] = {"type": "string", "enum": [of]}
    if path == "/v1/workspaces":
        # Those of all categories are listed at once.
        parameters = [one for one in parameters if one["name"] in ("of", "fields")]
    if path.endswith("/alert-rules"):
        # Hardly any name is one of a rule, and one of two is deleted, which the document says in words.
        parameters = [one for one in parameters if one["name"] not in ("rule", "webhook") or method == "delete"]
        parameters = [one for one in parameters if one["name"] != "webhook"]
        for parameter in parameters:
            parameter["required"] = True
    if "/events/" in path:
        # A consumer follows one kind of events, `true` is a condition too, and columns are those of a type.
        parameters = [one for one in parameters if one["name"] not in ("consumer", "where")]
        for parameter in parameters:
            if parameter["name"] == "type":
                parameter["schema"] = {"type": "string", "enum": ["predictions"]}
    if path.startswith("/v1/grants"):
        # A role is on a workspace or on a category, not on both.
        parameters = [one for one in parameters if one["name"] != "category"]
    if "/events/" in path or path.endswith("/lineage"):
        # A release that is not there has no events.
        parameters = [one for one in parameters if one["name"] != "release"]
    if path.startswith("/v1/counters/"):
        # The same key again with another sum is a conflict.
        parameters = [one for one in parameters if one["name"] != "Idempotency-Key"]
    if parameters:
        operation["parameters"] = parameters
    else:
        operation.pop("parameters", None)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for schema in [body, *body.get("anyOf", [])]:
        properties = schema.get("properties", {})
        if method == "patch":
            # Others need it by the name that it has, and with children.
            properties.pop("name", None)
            properties.pop("archived", None)
        for name, value in (("workspace", "credit/prod"), ("model", "risk")):
            if method in ("post", "put") and name in properties:
                nullable = [None] if "null" in properties[name].get("type", []) else []
                properties[name] = {"enum": [value, *nullable]}
        if path.startswith("/v1/tokens/"):
            # What a token is limited to must be there.
            for name, value in (("workspaces", "credit/prod"), ("categories", "credit")):
                if name in properties:
                    properties[name]["items"] = {"type": "string", "enum": [value]}
            # With it the limits must be those of one append, which the document says in words.
            properties.pop("once", None)
        if path.endswith("/sql"):
            # JSON Schema cannot say what a statement is, and hardly any read version is one that there is.
            properties["sql"] = {"type": "string", "enum": STATEMENTS}
            properties.pop("read_version", None)
        if path.endswith("/consumers") and method == "put":
            # It takes the place of a read version, of which hardly any is one that there is, and a consumer follows one kind.
            properties.pop("read_version", None)
            properties["kind"] = {"type": "string", "enum": ["predictions"]}
            schema["required"] = sorted({*schema.get("required", []), "kind"})
        if path.endswith("/alert-rules") and method == "put":
            # JSON Schema cannot say which fields go together, nor that names differ.
            rules = properties["rules"]
            rules["items"] = {"enum": ALERT_RULES}
            rules["uniqueItems"] = True
            rules.pop("maxItems", None)
            webhooks = properties["webhooks"]
            webhooks["items"] = {"enum": WEBHOOKS}
            webhooks["uniqueItems"] = True
            webhooks.pop("maxItems", None)
        if path.endswith("/alert-rules/test"):
            # The rule is one of those that are given, and days must be in their order.
            properties["name"] = {"enum": [rule["name"] for rule in ALERT_RULES]}
            properties["rules"] = {"const": ALERT_RULES}
            for name in ("webhooks", "from", "to"):
                del properties[name]
            schema["required"] = ["name", "rules"]
        if path.endswith("/outcomes/rematch"):
            # Days must be in their order.
            for name in ("from", "to"):
                del properties[name]
        if path.endswith("/promotion-gates") and method == "put":
            # JSON Schema cannot say that days, environments, a direction and a margin are of a gate.
            for name in [name for name in properties if name not in OF_GATES]:
                del properties[name]
            operation["requestBody"]["content"]["application/json"]["example"] = OF_GATES
        if path.endswith("/baselines") and method == "put":
            # Days must be days, and in their order.
            properties["days"] = {"enum": ["2026-04-01..2026-05-31", "2026-06-01"]}
            schema["required"] = sorted({*schema.get("required", []), "days"})
        if path.endswith("/approvals") and method == "post":
            # Taking back what was not given is a conflict.
            properties.pop("retract", None)
        if "entries" in properties:
            # Not all that looks like an id is one.
            properties["entries"]["items"] = {"type": "string", "enum": [SEEN]}
        if path.endswith("/definitions") and method == "post":
            # Of either a release or a model; it says something, and which task it is, the model says.
            for name in ("model", "task", "positive_label", "costs", "interval_level", "dimensions", "metrics"):
                properties.pop(name, None)
            properties["release"]["type"] = "string"
            properties["threshold"] = {"type": "number"}
            schema["required"] = sorted({*schema.get("required", []), "release", "threshold"})
        if path == "/v1/snapshots" and method == "post":
            for name in [name for name in properties if name not in OF_SNAPSHOT]:
                del properties[name]
            properties["columns"] = {"enum": [None, ["day"]]}
            properties["from"] = properties["to"] = {"enum": ["2026-06-01"]}
            schema["required"] = sorted({*schema.get("required", []), "from", "to"})
        if path == "/v1/releases" and "snapshot" in properties:
            properties["snapshot"] = {"enum": [None, "june"]}
        for name in ("snapshot_from", "snapshot_to"):
            # Either both or none, and in order.
            properties.pop(name, None)
        if path == "/v1/models":
            # JSON Schema cannot say that edges grow and columns differ, nor what an aggregate in SQL is.
            properties.pop("dimensions", None)
            properties.pop("metrics", None)
        if path in CREATED:
            MAX_BYTES.update((name, part["maxLength"]) for name, part in properties.items() if "maxLength" in part)


def narrow_parameter(parameter):
    name = parameter["name"]
    if name == "user" or parameter["in"] == "path" and name in ENTITIES:
        parameter["schema"] = {"type": "string", "enum": [ENTITIES[name]]}
        return
    if name in PATH:
        parameter["schema"] = {"type": "string", "enum": [PATH[name]]}
    elif name == "release":
        parameter["schema"] = RELEASE
    elif name == "against":
        parameter["schema"] = {"type": "string", "enum": ["v2"]}
    elif name in ("from", "to") and "anyOf" in parameter["schema"]:
        # Of two instants JSON Schema cannot say which one is later.
        parameter["schema"] = parameter["schema"]["anyOf"][0]
    elif name == "columns":
        # A tag that no event of the window has is refused, so only fields are asked for.
        items = parameter["schema"]["items"]
        items = items["anyOf"][0] if "anyOf" in items else items
        items.setdefault("enum", ["key", "score"])
        items["enum"] = [column for column in items["enum"] if column not in NOT_BY_RELEASE]
        parameter["schema"]["items"] = items
    elif name == "fields":
        parameter["schema"]["items"] = {"type": "string", "enum": ["id", "created_at", "attributes.team"]}
    elif name == "group-by":
        # Every breakdown has its own columns.
        parameter["schema"] = {"type": "string", "enum": ["release"]}
    elif name == "time-zone":
        parameter["schema"] = {"type": "string", "enum": ["Europe/Berlin", "UTC"]}
    elif name == "where":
        # JSON Schema cannot say what a condition is.
        parameter["schema"] = {"type": "string", "enum": ["day >= '2026-06-02'", "day is not null"]}
    elif name == "wait":
        # Most of what is followed has no events to come.
        parameter["schema"] = {"type": "integer", "enum": [0]}
    elif name in ("Almanac-Source", "source"):
        # The pattern of the document is too large to write texts from.
        parameter["schema"] = {"type": "string", "enum": ["job=nightly", "system=airflow; run=7; dataset=loans"]}
    elif name == "Almanac-Known-At":
        # JSON Schema cannot say that no event is of a later time.
        parameter["schema"] = {"type": "string", "enum": ["2026-06-30T00:00:00Z"]}
    elif name == "Content-Encoding":
        parameter["schema"]["enum"] = ["identity", ""]


def is_query(case):
    *_, before, last = case.path.split("/")
    return case.method == "GET" and last in QUERIES and "/workspaces/" in case.path and before != "events"


@schemathesis.hook
def before_call(context, case, **kwargs):
    query, body = case.query or {}, case.body
    if is_query(case) and "last" in query:
        # It takes the place of both.
        for name in ("from", "to"):
            if day_of(query.get(name)):
                del query[name]
    elif is_query(case):
        query.setdefault("from", str(LAST))
        query.setdefault("to", query["from"])
        case.query = query
    days = [day_of(query.get(name)) for name in ("from", "to")]
    if None not in days and days[0] > days[1]:
        query["from"], query["to"] = query["to"], query["from"]
    if None not in days and abs(days[1] - days[0]) > LONGEST:
        query["from"] = str(max(days) - LONGEST)
    if "environment" in query and NAME.fullmatch(str(query.get("model", ""))):
        # The history is of either.
        del query["model"]
    if case.path.endswith("/leaderboard") and not ("from" in query and "to" in query and "day" not in query):
        # The other words are of a window, which has both ends.
        for name in ("from", "to", "metric", "direction", "min-n", "environment", "as-of"):
            query.pop(name, None)
    elif case.path.endswith("/leaderboard"):
        # No release is live.
        query.pop("environment", None)
        query.setdefault("metric", "auc")
    if case.path.endswith("/slices"):
        # No primary metric may be set.
        query.setdefault("metric", "accuracy")
    if isinstance(body, dict):
        if body.get("primary_metric") is None and body.get("direction") in ("max", "min"):
            # A direction is that of a metric.
            body.pop("direction", None)
        for name, value in body.items():
            if isinstance(value, float) and value.is_integer():
                # To JSON Schema 13.0 is an integer.
                body[name] = int(value)
            if name in MAX_BYTES:
                body[name] = as_taken(value, name)
            if name in ("attributes", "metrics") and isinstance(value, dict):
                # A name that is empty stays, so that it is refused.
                body[name] = {key: storable(part) for key, part in value.items()}
    for event in body if isinstance(body, list) else []:
        if isinstance(event, dict):
            for name, value in event.items():
                if name == "tags" and isinstance(value, dict):
                    event[name] = {tag: as_taken(text, "tags") for tag, text in value.items()}
                elif name in MAX_BYTES:
                    event[name] = as_taken(value, name)
            if isinstance(event.get("label"), str) and event["label"] and not event["label"].strip():
                # White space around a label is dropped, and an empty one is none.
                event["label"] = "x"
            is_named = "Idempotency-Key" in (case.headers or {}) or len(body) > 1
            if is_named and is_event_id(event.get("event_id")):
                # It is for an event that is alone, in a request that has no other name.
                del event["event_id"]
            ends = (event.get("lower"), event.get("upper"))
            if all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends):
                # Of numbers in two fields JSON Schema cannot say which one is greater.
                event["lower"], event["upper"] = sorted(ends)
            if isinstance(event.get("scores"), dict):
                event["scores"] = adding_up(event["scores"])
            if isinstance(event.get("predicted_since"), str):
                # Of two instants JSON Schema cannot say which one is later.
                event["predicted_since"] = event.get("observed_at")
            # Both are allowed when they agree.
            if day_of(event.get("predicted_on")) and day_of(event.get("predicted_at")):
                event["predicted_on"] = event["predicted_at"][:10]


def as_taken(value, name):
    """A text that fits the schema, as Almanac takes it."""
    if isinstance(value, float) and value.is_integer():
        # JSON Schema calls 1.0 an integer; as a text Almanac takes 1 but not 1.0.
        return int(value)
    if isinstance(value, str) and len(value) <= MAX_BYTES[name]:
        return value.encode()[: MAX_BYTES[name]].decode(errors="ignore")
    return value


def adding_up(scores):
    """Scores that add up to 1 where each of them may be taken: JSON Schema knows no sums."""
    fits = [value is None or type(value) in (int, float) and 0 <= value <= 1 for value in scores.values()]
    if not scores or not all(fits):
        return scores
    named = {class_name(name): value for name, value in scores.items()}
    first, *rest = named
    return {first: 1.0, **{name: None if named[name] is None else 0.0 for name in rest}}


def class_name(name):
    """The name of a class that fits the schema, as Almanac takes it."""
    name = as_taken(name, "label")
    return name if name.strip() or not name else "x"


def storable(value, depth=30):
    """Any JSON, as an attribute can hold it: JSON Schema knows no bounds of decimal numbers, and no sets."""
    if isinstance(value, dict):
        return {key or "x": storable(part, depth - 1) for key, part in value.items() if key != "$set"} if depth else {}
    if isinstance(value, list):
        return [storable(part, depth - 1) for part in value] if depth else []
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if value == 0 or 1e-100 < abs(value) < 1e100 else 0
    return value


def is_event_id(value):
    is_text = isinstance(value, (str, int)) and not isinstance(value, bool)
    return is_text and EVENT_ID.fullmatch(str(value))


def day_of(value):
    try:
        return datetime.datetime.fromisoformat(value).date()
    except (TypeError, ValueError):
        return None


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    # What is no array is no lines of objects either: it stays one line that is no object.
    lines = value if isinstance(value, list) else [[value]]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@schemathesis.deserializer("application/x-ndjson")
def rows(context, response):
    return [json.loads(line) for line in response.content.splitlines()]
