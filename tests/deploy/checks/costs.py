"""The table of costs in terraform/README.md: each row is what its arithmetic says, together they are the sum, and alarms and metrics are as many as there are."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[3] / "terraform" / "README.md"
# Prices are told to the cent.
CENT = 0.0051


def amount(arithmetic):
    """The value of such as `3 tasks x 0.25 vCPU x $0.04`: numbers, millions and signs; other words are dropped."""
    text = arithmetic.split(", for each")[0].replace("$", "").replace(",", "")
    text = re.sub(r"([\d.]+) million", r"(\1*1000000)", text).replace(" x ", "*")
    text = re.sub(r"[A-Za-z]+", "", text)
    return eval(text, {"__builtins__": {}})  # numbers and signs, from a file of this repository


def faults(resources):
    section = README.read_text().split("## What it costs")[1]
    rows = re.findall(r"^\| ([^|]+) \|([^|]*)\| \$([\d.]+) \|$", section, re.MULTILINE)
    told = [(what, arithmetic, float(cost)) for what, arithmetic, cost in rows if what != "together"]
    found = [] if len(told) > 10 else [f"only {len(told)} rows of costs were found"]
    for what, arithmetic, cost in told:
        if abs(amount(arithmetic) - cost) > CENT:
            found.append(f"the cost of {what}: {arithmetic} is {amount(arithmetic):.2f}, not {cost}")
    total = next(float(cost) for what, _, cost in rows if what == "together")
    if abs(sum(cost for *_, cost in told) - total) > CENT:
        found.append(f"the costs are {sum(cost for *_, cost in told):.2f} together, not {total}")
    alarms = [one["values"] for one in resources if one["type"] == "aws_cloudwatch_metric_alarm"]
    metrics = sum(max(1, sum(bool(query["metric"]) for query in alarm["metric_query"] or [])) for alarm in alarms)
    filters = [one["values"] for one in resources if one["type"] == "aws_cloudwatch_log_metric_filter"]
    made = {one["metric_transformation"][0]["name"] for one in filters}
    for wanted in (f"({metrics} metrics + 6 of autoscaling)", f"| {len(made)} x $0.30 |"):
        if wanted not in section:
            found.append(f"the costs should have {wanted!r}")
    return found


def looked_at(_resources):
    return "the costs are what their arithmetic says"
