"""What CloudWatch demands of alarms and dashboards, looked at where all is known: metrics that the filters make, queries that name each other."""

import json
import re

NAMESPACE = "Almanac/almanac"
PERIODS = (10, 20, 30)
LONGEST = {True: 86_400, False: 604_800}
FUNCTIONS = {"SUM", "MAX", "METRICS", "FILL", "IF"}


def of(resources, kind):
    return [one["values"] for one in resources if one["type"] == kind]


def made(resources):
    return {one["metric_transformation"][0]["name"] for one in of(resources, "aws_cloudwatch_log_metric_filter")}


def faults(resources):
    known = made(resources)
    found = []
    for alarm in of(resources, "aws_cloudwatch_metric_alarm"):
        found += [f"the alarm {alarm['alarm_name']}: {what}" for what in alarm_faults(alarm, known)]
    for dashboard in of(resources, "aws_cloudwatch_dashboard"):
        for widget in json.loads(dashboard["dashboard_body"])["widgets"]:
            for namespace, metric, *_rest in widget["properties"]["metrics"]:
                if namespace == NAMESPACE and metric not in known:
                    found.append(f"the dashboard: no filter makes {metric}")
    return found


def alarm_faults(alarm, known):
    queries = alarm["metric_query"] or []
    metrics = [query["metric"][0] for query in queries if query["metric"]]
    metrics += [alarm] if alarm["metric_name"] else []
    for metric in metrics:
        period = metric["period"]
        if period not in PERIODS and (period < 60 or period % 60):
            yield f"{period} s is no period"
        if period * alarm["evaluation_periods"] > LONGEST[period < 3600]:
            yield "it looks back too far"
        if metric["namespace"] == NAMESPACE and metric["metric_name"] not in known:
            yield f"no filter makes {metric['metric_name']}"
        if len(metric.get("dimensions") or {}) == 0 and metric["namespace"].startswith("AWS/"):
            yield f"{metric['metric_name']} needs dimensions"
    ids = {query["id"] for query in queries}
    for query in queries:
        if not re.fullmatch(r"[a-z][A-Za-z0-9_]*", query["id"]):
            yield f"{query['id']} is no id of a query"
        for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", query["expression"] or ""):
            if word not in FUNCTIONS and word not in ids:
                yield f"the expression {query['expression']} names {word}, which is no query"
    if queries and sum(bool(query["return_data"]) for query in queries) != 1:
        yield "exactly one query returns data"
    if alarm["datapoints_to_alarm"] and alarm["datapoints_to_alarm"] > alarm["evaluation_periods"]:
        yield "more periods are to be over the threshold than are looked at"
    if alarm["alarm_description"] and not alarm["alarm_actions"]:
        yield "it tells nobody"


def looked_at(resources):
    alarms = of(resources, "aws_cloudwatch_metric_alarm")
    metrics = sum(max(1, sum(bool(query["metric"]) for query in alarm["metric_query"] or [])) for alarm in alarms)
    return f"{len(alarms)} alarms on {metrics} metrics, {len(made(resources))} metrics from log lines"
