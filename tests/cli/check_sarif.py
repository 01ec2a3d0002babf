#!/usr/bin/env python3
"""Reads SARIF from standard input and asks for what version 2.1.0 of the format requires:
the log (3.13), runs (3.14), the tool (3.18, 3.19), results (3.27), locations (3.28, 3.29, 3.33),
regions (3.30), rules (3.49), invocations (3.20) and their notifications (3.58). Prints how many results there are, by level."""
import collections
import json
import re
import sys

URI = re.compile(r"^[A-Za-z0-9\-._~/:%]+$")
LEVELS = ("none", "note", "warning", "error")


def check_location(location):
    physical = location["physicalLocation"]
    assert URI.match(physical["artifactLocation"]["uri"]), physical
    if "region" in physical:
        assert physical["region"]["startLine"] >= 1
    for logical in location.get("logicalLocations", []):
        assert isinstance(logical["fullyQualifiedName"], str)
    if "message" in location:
        assert isinstance(location["message"]["text"], str)


log = json.load(sys.stdin)
assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
assert isinstance(log["runs"], list) and log["runs"]
levels = collections.Counter()
for run in log["runs"]:
    driver = run["tool"]["driver"]
    assert isinstance(driver["name"], str) and driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    for result in run["results"]:
        assert result["message"]["text"] and result["level"] in LEVELS
        assert ids[result["ruleIndex"]] == result["ruleId"]
        for location in result["locations"] + result.get("relatedLocations", []):
            check_location(location)
        levels[result["level"]] += 1
    for invocation in run.get("invocations", []):
        assert isinstance(invocation["executionSuccessful"], bool)
        for notification in invocation["toolExecutionNotifications"]:
            assert notification["message"]["text"] and notification["level"] in LEVELS and notification["descriptor"]["id"]
            for location in notification["locations"]:
                check_location(location)
            levels["notification"] += 1
print(", ".join(f"{n} {level}" for level, n in sorted(levels.items())) or "no results")
