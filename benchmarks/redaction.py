"""What it costs to redact replies on the sampling loop: CPU time a megabyte, for five kinds of text."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from pytest_crucible.records.redaction import hider

SIZE, SECRETS = 1_000_000, {f"planted-{k}-{'k' * 20}" for k in range(4)}
ROOT = Path(__file__).parents[1]


def figures() -> list[Figure]:
    hide = hider(SECRETS)
    texts = {
        "words": _words(),
        "Markdown": _repeat(_files("docs", "*.md")),
        "Python": _repeat(_files("pytest_crucible", "*.py")),
        "JSON with links": _repeat(_records()),
        "dashes": "-" * SIZE,
    }
    return [
        Figure(name=f"redaction of a megabyte of {name}", measured=_milliseconds(hide, text), unit="ms", limit=18)
        for name, text in texts.items()
    ]


def _words() -> str:
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(180_000))[:SIZE]


def _files(folder: str, names: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob(names)))


def _records() -> str:
    draw = random.Random(2)
    return json.dumps([{"id": k, "url": f"https://example.org/{k}", "score": draw.random()} for k in range(10_000)])


def _repeat(text: str) -> str:
    return (text * (SIZE // len(text) + 1))[:SIZE]


def _milliseconds(hide, text: str) -> float:
    best = float("inf")
    for _ in range(7):
        begun = time.process_time()
        hide(text)
        best = min(best, time.process_time() - begun)
    return best * 1000 * SIZE / len(text)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
