"""The severities that a project sets."""

from __future__ import annotations

import pytest

from pytest_crucible.features.run_checks.finding import read_severities
from pytest_crucible.records.errors import SpecError


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("equal reply: warn", "crucible_checks_of_runs names the check 'equal reply': did you mean 'equal replies'?"),
        ("sent", "crucible_checks_of_runs has 'sent'; expected 'sent: fail', 'sent: warn' or 'sent: note'"),
        ("sent: off", "crucible_checks_of_runs has 'sent: off'; expected 'sent: fail', 'sent: warn' or 'sent: note'"),
    ],
)
def test_an_unknown_check_or_severity_is_refused_with_one_sentence(text, sentence):
    with pytest.raises(SpecError) as caught:
        read_severities(text)
    assert str(caught.value) == sentence
