"""`crucible metrics` and its kin."""

from __future__ import annotations

import json

from pytest_crucible.builtin import METRICS
from pytest_crucible.cli import main


def test_every_metric_has_a_line(capsys):
    assert main(["metrics"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(METRICS)
    assert "binary    higher    0 to 1" in next(line for line in lines if line.startswith("exact_match"))
    assert all(line.endswith(".") for line in lines[1:])


def test_the_same_for_programs(capsys):
    assert main(["metrics", "--json"]) == 0

    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(METRICS)
    assert listed["latency_s"]["direction"] == "lower"
    assert listed["latency_s"]["high"] is None
    assert "no entailment scorer" in listed["entailment"]["version"]
