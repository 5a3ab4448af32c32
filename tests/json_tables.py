"""Tables of the tests' data: one JSON value a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_table(name: str) -> list[Any]:
    """Return the rows of a table, such as `replies/choices`."""
    path = Path(__file__).parent / "data" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
