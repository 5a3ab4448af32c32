"""The card of a training file: its content, the origin of its rows, and the rows that were left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.records.serialize import to_plain

_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
CARD, ORIGINS, HOLDOUT = ".card.json", ".origins.jsonl", ".holdout"


def origin_lines(origins: Sequence[Mapping[str, Any]]) -> str:
    """Return the origins as JSON Lines: the first is that of the file's first line."""
    return "".join(f"{json_line({'line': line, **origin})}\n" for line, origin in enumerate(origins, start=1))


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, with lone surrogates escaped, which UTF-8 cannot encode."""
    text = _ENCODE(row)
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def file_sha256(text: str) -> str:
    """Return the SHA-256 of a text as written to a file."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def describe_file(text: str, origins: Sequence[Mapping[str, Any]], origins_text: str) -> dict[str, Any]:
    """Return a card's facts about one file: rows, samples and hashes. Without a date, equal files have equal cards."""
    samples = {(origin.get("experiment"), origin.get("sample")) for origin in origins if "sample" in origin}
    return {
        "sha256": file_sha256(text),
        "origins_sha256": file_sha256(origins_text),
        "rows": len(origins),
        "samples": len(samples),
        "gate_rows": sum(bool(origin.get("gate")) for origin in origins),
    }


def card_text(card: Mapping[str, Any]) -> str:
    """Return the text of a card."""
    return json.dumps(to_plain(card), indent=1, ensure_ascii=False) + "\n"
