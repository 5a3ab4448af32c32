"""API keys: whether there is one for the hosted service, and that none is ever shown."""

from __future__ import annotations

import os
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.tinkering.places import KEY, KEY_STARTS


def hosted_key(sdk: Any) -> tuple[str | None, set[str]]:
    """The key for the hosted service, None where the SDK has to find one; and all that the SDK may send.

    Raises SpecError when there is none, or none that can be right.
    """
    key, command = os.environ.get(KEY, ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError(f"{KEY} is no key of Tinker: it must start with 'tml-'")
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(f"there is no key for the hosted Tinker service: set {KEY}, or leave crucible_tinker = local")
    return (key if key.startswith(KEY_STARTS) else None), {one for one in (key, stored) if one}
