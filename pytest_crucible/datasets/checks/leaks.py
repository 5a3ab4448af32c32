"""Expectations on texts that must not be sent to a model: secrets and personal data."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.datasets.checks.arguments import check_choice
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import row_check
from pytest_crucible.datasets.checks.values import row_finding
from pytest_crucible.detectors.pii import PII_TYPES, find_pii
from pytest_crucible.detectors.secrets import find_secrets
from pytest_crucible.records.errors import SpecError

# A link is part of many prompts, and seldom personal.
PERSONAL = tuple(name for name in PII_TYPES if name != "URL")


@row_check
def expect_no_secrets(column: str = "input") -> Finder:
    """Expect texts without keys, tokens, private keys and passwords. The secrets themselves are not shown."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        return row_finding(
            values, [bool(find_secrets(text)) for text in values.texts], "without a secret", "have a secret"
        )

    return find


@row_check
def expect_no_personal_data(column: str = "input", types: Sequence[str] = PERSONAL) -> Finder:
    """Expect texts without personal data.

    `types` are of CREDIT_CARD, EMAIL_ADDRESS, IBAN_CODE, IP_ADDRESS, PHONE_NUMBER, US_SSN and URL; by default, all but URL.
    """
    if isinstance(types, str) or not types:
        raise SpecError('types must be a list, such as ["EMAIL_ADDRESS"]')
    for name in types:
        check_choice("types", name, PII_TYPES)

    def find(table: Table) -> Finding:
        values = table.column(column)
        return row_finding(
            values,
            [bool(find_pii(text, types)) for text in values.texts],
            "without personal data",
            "have personal data",
        )

    return find
