"""Latencies in reports: those of files and scripts are no model's."""

from __future__ import annotations

import math

from pytest_crucible.runs.reporters import hide_instant


def test_an_instant_arm_has_no_latencies_though_a_busy_machine_has_delayed_one_reply():
    assert all(map(math.isnan, hide_instant([0.00002] * 19 + [0.03])))


def test_a_models_latencies_stay_beside_a_reply_that_is_missing():
    assert hide_instant([0.2, 0.3, 0.0001])[:2] == [0.2, 0.3]
    assert hide_instant([math.nan, 0.2])[1] == 0.2


def test_without_any_reply_nothing_is_known():
    assert all(map(math.isnan, hide_instant([math.nan])))
