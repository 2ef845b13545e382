"""Alarms evaluated over series of metrics as CloudWatch does: a day of normal work and a first deployment, in which none goes off
that should not, and for each alarm a fault, in which it does.

A series is a value a minute, or a list of values of one minute (requests); None is a minute without data.
"""

import math
import re

HOUR = 60
DAY = 24 * HOUR
TABLE, BALANCER, TASKS, OWN = "AWS/DynamoDB", "AWS/ApplicationELB", "AWS/ECS", "Almanac/almanac"
STATISTICS = {"Sum": sum, "Maximum": max, "Minimum": min, "Average": lambda values: sum(values) / len(values)}
COMPARISONS = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}
# Fewest alarms that take a deployment back.
DEPLOYMENT = 5


def minutes(usual, **changes):
    """A day of one value, with others from a minute on: at_60=(30, 5) is 5 for half an hour from the first hour on."""
    series = [usual] * DAY
    for at, (length, value) in changes.items():
        start = int(at.removeprefix("at_"))
        series[start : start + length] = [value] * length
    return series


def normal():
    """A day of a million predictions, with what is usual in it: by namespace, metric and, where it matters, target group or role."""
    answers = [0.02] * 995 + [0.9] * 5
    deployed = 600
    return {
        # 205,000 units an hour are the model of a million predictions a day; a nightly import writes.
        (TABLE, "ConsumedReadCapacityUnits", "table"): minutes(205_000 / HOUR),
        (TABLE, "ConsumedWriteCapacityUnits", "table"): minutes(60_000 / HOUR, at_120=(30, 90_000 / HOUR)),
        (TABLE, "ReadThrottleEvents", "table"): minutes(None, at_121=(2, 40)),
        (TABLE, "WriteThrottleEvents", "table"): minutes(None, at_121=(2, 40)),
        (TABLE, "SystemErrors", "GetItem"): minutes(None, at_300=(1, 1)),
        # Answers of a busy service count for the load balancer as those of a broken one.
        (BALANCER, "HTTPCode_Target_5XX_Count", ""): minutes(None, at_800=(30, 40)),
        (BALANCER, "HTTPCode_ELB_5XX_Count", ""): minutes(None, **{f"at_{deployed}": (1, 2)}),
        (BALANCER, "TargetResponseTime", "ingest"): minutes(answers),
        (BALANCER, "TargetResponseTime", "query"): minutes(answers),
        # Readers that wait for new events get their headers with the first of them.
        (BALANCER, "TargetResponseTime", "follow"): minutes([20.0] * 5),
        (BALANCER, "HealthyHostCount", "ingest"): minutes(2, **{f"at_{deployed}": (5, 1)}),
        (BALANCER, "HealthyHostCount", "query"): minutes(2, **{f"at_{deployed}": (5, 1)}),
        (TASKS, "MemoryUtilization", "ingest"): minutes(40),
        (TASKS, "MemoryUtilization", "projector"): minutes(60, at_700=(2, 95)),
        (TASKS, "MemoryUtilization", "query"): minutes(70),
        ("AWS/CertificateManager", "DaysToExpiry", ""): minutes(200),
        (OWN, "Errors", ""): minutes(0, at_400=(1, 1)),
        (OWN, "TurnedAway", ""): minutes(0, at_800=(9, 40)),
        (OWN, "Denied", ""): minutes(0),
        (OWN, "ErrorLines", ""): minutes(None),
        (OWN, "WarnLines", ""): minutes(None, at_800=(9, 8)),
        # A rollup rests for 30 s; the projector of a deployment knows nothing before its first sweep.
        (OWN, "LagSeconds", ""): minutes(30, at_120=(8, 400), **{f"at_{deployed}": (2, None)}),
        (OWN, "LagSegments", ""): minutes(20),
        (OWN, "UnevaluatedDays", ""): minutes(2, at_120=(90, 300)),
        (OWN, "DeadLetters", ""): minutes(0),
        (OWN, "HeartbeatSeconds", ""): minutes(2),
        (OWN, "FeedSeconds", ""): minutes(5, at_900=(2, 60)),
        (OWN, "FoldSeconds", ""): minutes(0, at_120=(30, 40)),
        # A large day is evaluated for 20 minutes.
        (OWN, "CheckpointSeconds", ""): minutes(10, at_120=(20, 1_200)),
        (OWN, "SweepSeconds", ""): [minute % 15 * 60 for minute in range(DAY)],
        (OWN, "Minutes-ingest", ""): minutes(2, at_800=(20, 6)),
        (OWN, "Minutes-projector", ""): minutes(1),
        (OWN, "Minutes-query", ""): minutes(2),
    }


def first_deployment():
    """The first day: nothing reports for the first half hour, while images are pulled."""
    return {key: [None] * 30 + series[30:] for key, series in normal().items()}


# What is different when an alarm is to go off.
FAULTS = {
    "table-throttles": {(TABLE, "WriteThrottleEvents", "table"): minutes(None, at_300=(10, 40))},
    "table-errors": {(TABLE, "SystemErrors", "PutItem"): minutes(None, at_300=(10, 3))},
    "read-budget": {(TABLE, "ConsumedReadCapacityUnits", "table"): minutes(205_000 / HOUR, at_300=(60, 10_000))},
    "write-budget": {(TABLE, "ConsumedWriteCapacityUnits", "table"): minutes(1_000, at_300=(60, 10_000))},
    "projector-lag": {(OWN, "LagSeconds", ""): minutes(30, at_300=(30, None))},
    "projector-scale-out": {(OWN, "LagSeconds", ""): minutes(30, at_300=(5, 200))},
    "dead-letters": {(OWN, "DeadLetters", ""): minutes(0, at_300=(5, 1))},
    "http-errors": {(OWN, "Errors", ""): minutes(0, at_300=(5, 6))},
    "http-errors-repeated": {(BALANCER, "HTTPCode_ELB_5XX_Count", ""): minutes(None, at_300=(1, 1), at_400=(1, 1), at_500=(1, 1))},
    "ingest-down": {(BALANCER, "HealthyHostCount", "ingest"): minutes(2, at_300=(5, 0))},
    "query-down": {(BALANCER, "HealthyHostCount", "query"): minutes(2, at_300=(5, None))},
    # Folds that fail; and nobody who sweeps.
    "projector-stands-still": {(OWN, "FoldSeconds", ""): minutes(0, at_300=(20, 1000))},
    "projector-stands-still, by the sweep": {(OWN, "SweepSeconds", ""): minutes(60, at_300=(20, None))},
    "unevaluated": {(OWN, "UnevaluatedDays", ""): minutes(2, at_300=(240, 12))},
    "denied": {(OWN, "Denied", ""): minutes(0, at_300=(1, 1))},
    "error-lines": {(OWN, "ErrorLines", ""): minutes(None, at_300=(1, 1))},
    "warn-lines": {(OWN, "WarnLines", ""): minutes(None, at_300=(30, 8))},
    "turned-away": {(OWN, "TurnedAway", ""): minutes(0, at_300=(20, 40))},
    "ingest-latency": {(BALANCER, "TargetResponseTime", "ingest"): minutes([0.1] * 90 + [12.0] * 10)},
    "query-latency": {(BALANCER, "TargetResponseTime", "query"): minutes([0.1] * 90 + [12.0] * 10)},
    "memory": {(TASKS, "MemoryUtilization", "query"): minutes(70, at_300=(5, 95))},
    "tasks-at-maximum": {(OWN, "Minutes-query", ""): minutes(2, at_300=(40, 6))},
    "certificate": {("AWS/CertificateManager", "DaysToExpiry", ""): minutes(20)},
}


class Metrics:
    """The metrics of a world, by the dimensions of an alarm."""

    def __init__(self, world, resources):
        self.world = world
        groups = [one for one in resources if one["type"] == "aws_lb_target_group"]
        self.groups = {one["values"]["arn_suffix"]: one["index"] for one in groups}

    def series(self, metric):
        dimensions = metric.get("dimensions") or {}
        part = self.groups.get(dimensions.get("TargetGroup")) or dimensions.get("Operation") or dimensions.get("ServiceName")
        if metric["namespace"] == TABLE and not part:
            part = dimensions.get("GlobalSecondaryIndexName", "table")
        return self.world.get((metric["namespace"], metric["metric_name"], part or ""), [None] * DAY)

    def periods(self, metric):
        """The statistic of each period of a metric; nan where there are no data."""
        series, length = self.series(metric), metric["period"] // 60
        # A metric of a day is looked at once.
        starts = range(0, DAY, length)
        return [statistic(metric, [value for value in series[start : start + length] if value is not None]) for start in starts]


def statistic(metric, values):
    values = [one for value in values for one in (value if isinstance(value, list) else [value])]
    if not values:
        return math.nan
    name = metric.get("stat") or metric.get("statistic") or metric.get("extended_statistic")
    if name == "p99":
        return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
    return STATISTICS[name](values)


def known(values):
    return [value for value in values if not math.isnan(value)]


def evaluated(expression, values):
    """The value of an expression of metric math at one instant."""
    names = {
        **values,
        "METRICS": lambda: list(values.values()),
        "SUM": lambda many: sum(known(many)) if known(many) else math.nan,
        "MAX": lambda many: max(known(many), default=math.nan),
        "FILL": lambda value, other: other if math.isnan(value) else value,
        "IF_": lambda condition, then, other: then if condition else other,
    }
    return eval(re.sub(r"\bIF\(", "IF_(", expression), {"__builtins__": {}}, names)  # an expression of this repository


def values_of(alarm, metrics):
    """The value of an alarm in each period, and the length of a period in minutes."""
    queries = alarm["metric_query"] or []
    if not queries:
        return metrics.periods(alarm)
    inputs = {query["id"]: metrics.periods(query["metric"][0]) for query in queries if query["metric"]}
    told = next(query for query in queries if query["return_data"])
    instants = range(len(next(iter(inputs.values()))))
    return [evaluated(told["expression"], {name: values[at] for name, values in inputs.items()}) for at in instants]


def goes_off(alarm, metrics):
    """Whether an alarm goes off at any instant."""
    values = values_of(alarm, metrics)
    is_over = lambda value: COMPARISONS[alarm["comparison_operator"]](value, alarm["threshold"])
    missing = alarm["treat_missing_data"] == "breaching"
    over = [missing if math.isnan(value) else is_over(value) for value in values]
    of = alarm["evaluation_periods"]
    needed = alarm["datapoints_to_alarm"] or of
    return any(sum(over[at : at + of]) >= needed for at in range(max(1, len(over) - of + 1)))


def name_of(alarm):
    return alarm["alarm_name"].removeprefix("almanac-")


def faults(resources):
    alarms = {name_of(one["values"]): one["values"] for one in resources if one["type"] == "aws_cloudwatch_metric_alarm"}
    services = [one["values"] for one in resources if one["type"] == "aws_ecs_service"]
    deployment = {name_of({"alarm_name": name}) for service in services for name in service["alarms"][0]["alarm_names"]}
    # It adds tasks for an import, and tells nobody.
    silent = set(alarms) - {"projector-scale-out"}
    found = []
    for what, world, names in [("normal work", normal(), silent), ("the first deployment", first_deployment(), deployment)]:
        metrics = Metrics(world, resources)
        found += [f"the alarm {name} goes off in {what}" for name in sorted(names) if goes_off(alarms[name], metrics)]
    for fault, changes in FAULTS.items():
        name = fault.split(",")[0]
        if name not in alarms or not goes_off(alarms[name], Metrics({**normal(), **changes}, resources)):
            found.append(f"the alarm {name} does not go off in its fault: {fault}")
    untried = set(alarms) - {fault.split(",")[0] for fault in FAULTS}
    found += [f"no fault is known in which the alarm {name} goes off" for name in sorted(untried)]
    if len(deployment) < DEPLOYMENT:
        found.append(f"only {len(deployment)} alarms take a deployment back")
    return found


def looked_at(_resources):
    return f"alarms are silent in normal work and the first deployment, and go off in {len(FAULTS)} faults"
