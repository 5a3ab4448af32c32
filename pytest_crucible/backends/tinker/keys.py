"""The API key of the hosted service."""

from __future__ import annotations

import os
from typing import Any

from pytest_crucible.backends.tinker.service_address import KEY, KEY_STARTS
from pytest_crucible.records.errors import SpecError


def find_hosted_key(sdk: Any) -> tuple[str | None, set[str]]:
    """Return the hosted service's key, None if the SDK finds one itself, and all secrets that the SDK may send.

    Raises SpecError for a missing key and for a text that cannot be a key.
    """
    key, command = os.environ.get(KEY, ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    # With a command the SDK finds the key itself: the variable need not hold one.
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError(f"{KEY} is not a Tinker key: it must start with 'tml-'")
    # Tokens of `tinker auth login`, which older versions of the SDK do not have.
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(f"the hosted Tinker service needs a key: set {KEY}, or leave crucible_tinker = local")
    return (key if key.startswith(KEY_STARTS) else None), {secret for secret in (key, stored) if secret}
