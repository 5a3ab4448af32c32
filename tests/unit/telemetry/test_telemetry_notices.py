"""The table `[notify]`: what it takes, and that its errors show no URL."""

from __future__ import annotations

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.telemetry.notices import Notice, read_notify_settings, send_notices


def test_destinations_are_variables():
    settings = read_notify_settings({"missed": "$A", "ended": "${B}", "budget": {"at": 0.8, "to": "$A"}})
    assert settings.endings == {"ended": "B", "missed": "A"}
    assert (settings.budget_share, settings.variables) == (0.8, ("B", "A"))
    assert read_notify_settings({}).variables == ()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"mised": "$A"}, r"did you mean 'missed'"),
        ({"missed": "slack://T0KEN"}, r'URLs are secrets.*missed = "\$SLACK_URL"'),
        ({"missed": 3}, "without a variable"),
        ({"budget": {"at": 8, "to": "$A"}}, r"budget = \{ at = 0\.8"),
        ({"budget": {"at": 0.8}}, "invalid budget"),
    ],
)
def test_invalid_settings_are_refused_without_their_values(table, message):
    with pytest.raises(SpecError, match=message) as raised:
        read_notify_settings(table)
    assert "T0KEN" not in str(raised.value)


def test_a_variable_that_is_not_set_is_a_warning():
    assert send_notices([Notice("A", "t", "b"), Notice("A", "t", "b")], {}) == [
        "warning: the message to $A was not sent: the variable is not set"
    ]
