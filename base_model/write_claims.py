"""Writes the samples of example_suites/claims: what its adapters train on, and what they are asked. The files are committed.

    python -m base_model.write_claims

Held-out samples are about treatments whose names occur neither in the base's text nor in the adapters'. Several of them
ask about one passage: `group` names it. Four passages of five are one document, the fifth is two: there the base is no better
than chance at telling which of them to cite, so that their share bounds what an adapter can reach.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from base_model.claims import ClaimSample, write_samples
from base_model.words import HELD_OUT_NAMES, TRAINING_NAMES

SUITE = Path(__file__).parent.parent / "example_suites" / "claims"
TRAINING_PASSAGES, HELD_OUT_PASSAGES = 320, 80
_WITH_TWO_DOCUMENTS = 5
"""One passage in so many has two documents."""


def training_rows() -> Iterator[dict[str, str]]:
    """Prompt and completion: 640 samples, two to a passage."""
    for samples in passages(random.Random(101), TRAINING_NAMES, TRAINING_PASSAGES, questions=2):
        yield from ({"prompt": sample.prompt, "completion": sample.completion} for sample in samples)


def held_out_rows() -> Iterator[dict[str, object]]:
    """240 questions, three to a passage, with the documents that the right answer cites."""
    for place, samples in enumerate(passages(random.Random(202), HELD_OUT_NAMES, HELD_OUT_PASSAGES, questions=3)):
        for letter, sample in zip("abc", samples, strict=True):
            yield _question(f"passage-{place:02}", letter, sample)


def passages(draw: random.Random, names: Sequence[str], count: int, questions: int) -> Iterator[list[ClaimSample]]:
    """So many passages' samples; every fifth passage has two documents."""
    drawn = write_samples(draw, names, questions)
    for place in range(count):
        documents = 2 if place % _WITH_TWO_DOCUMENTS == 0 else 1
        yield next(samples for samples in drawn if len(samples[0].passage.documents) == documents)


def _question(group: str, letter: str, sample: ClaimSample) -> dict[str, object]:
    cited = [document.number for document, _ in sample.passage.evidence(sample.hypothesis)]
    asked = {"id": f"{group}{letter}", "input": sample.prompt, "expected": sample.completion}
    return {**asked, "group": group, "documents": cited}


def write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    SUITE.mkdir(exist_ok=True)
    write(SUITE / "train.jsonl", training_rows())
    write(SUITE / "held_out.jsonl", held_out_rows())
