"""The table `[notify]`: what it takes, and that its errors show no URL."""

from __future__ import annotations

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import hider
from pytest_crucible.telemetry.notices import Notice, public_host, read_notify_settings, secret_parts, send_notices


def test_destinations_are_environment_variables():
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


def test_unset_variable_is_a_warning():
    assert send_notices([Notice("A", "t", "b"), Notice("A", "t", "b")], {}) == [
        "warning: the message to $A was not sent: the variable is not set"
    ]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.slack.com/services/T0/B0/x1", "hooks.slack.com"),
        ("json://127.0.0.1:8080/r00m", "127.0.0.1"),
        ("jsons://user:p4ssw0rd@[2001:db8::1]:8443/r00m", "2001:db8::1"),
        ("jsons://[2001:DB8:0::1]/r00m-t0ken", "2001:db8::1"),
        ("mailto://me:p4ssw0rd@mail42.example.org?to=you", "mail42.example.org"),
        ("ntfy://localhost/t0pic-0f-mine", "localhost"),
        ("slack://T0KENAAAA/B0KENBBB/C0KENCCC", ""),
        ("tgram://123456789:AAF0_token-of-a-bot/42", ""),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", ""),
        ("no url", ""),
    ],
)
def test_host_of_a_url_is_public_and_tokens_are_not(url, host):
    parts = set(secret_parts(url))

    assert public_host(url) == host
    assert host not in parts
    assert url in parts
    hidden = hider(parts)(f"{url} and host {host}.")
    assert hidden == f"(key hidden) and host {host}."
    for token in ("p4ssw0rd", "T0KENAAAA", "B0KENBBB", "4174216298", "123456789", "t0pic-0f-mine"):
        assert token not in url or token in parts
