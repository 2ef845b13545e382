"""The policies of roles as they come out, judged by parliament: actions and resources that do not exist or do not go together,
conditions that an action does not know, rights without a bound."""

import json

from parliament import analyze_policy_string

# What parliament says, and why that is no fault here.
EXCUSED = {
    # kind: (sids, reason)
    "RESOURCE_STAR": ({"LogInToTheRegistry"}, "a token of ECR is of no one repository"),
}
TESTS = {"ForAllValues:StringLike", "StringEquals", "StringLike", "ArnLike", "Null"}


def documents(resources):
    """The policy documents: name and JSON."""
    for one in resources:
        if one["type"] == "aws_iam_policy_document":
            name = one["name"]
            yield name, {"Version": "2012-10-17", "Statement": [statement(each) for each in one["values"]["statement"]]}


def statement(values):
    out = {"Sid": values["sid"] or "Assume", "Effect": values["effect"] or "Allow", "Action": values["actions"]}
    if values["resources"]:
        out["Resource"] = values["resources"]
    if values["principals"]:
        out["Principal"] = {one["type"]: one["identifiers"] for one in values["principals"]}
    for condition in values["condition"] or []:
        # As the provider writes it.
        value = condition["values"] if len(condition["values"]) != 1 else condition["values"][0]
        out.setdefault("Condition", {}).setdefault(condition["test"], {})[condition["variable"]] = value
    return out


def faults(resources):
    found = []
    for name, document in documents(resources):
        # Who may take a role, and what may pass an endpoint, are no policies of identities: parliament knows only those.
        if any("Principal" in one for one in document["Statement"]):
            continue
        analyzed = analyze_policy_string(json.dumps(document))
        for finding in analyzed.findings:
            sids = sids_of(finding, document)
            excused, _reason = EXCUSED.get(finding.issue, (set(), ""))
            if not sids or not sids <= excused:
                found.append(f"the policy {name}: {finding.issue} {finding.detail} {finding.location}")
        for one in document["Statement"]:
            found += [f"the policy {name}: no test {test} is known" for test in one.get("Condition", {}) if test not in TESTS]
    return found


def sids_of(finding, document):
    """The statements that a finding is about, as far as it tells."""
    text = json.dumps(finding.location, default=str) + str(finding.detail)
    return {one["Sid"] for one in document["Statement"] if one["Sid"] in text}


def looked_at(resources):
    judged = [name for name, document in documents(resources) if all("Principal" not in one for one in document["Statement"])]
    return f"parliament finds nothing in {len(judged)} policies"
