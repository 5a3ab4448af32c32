"""What the CNS3 metrics take a sample, and the parser a completion; without the models that some of them ask."""

from __future__ import annotations

import asyncio
import inspect
import timeit

from benchmarks.figures import Figure, show
from pytest_crucible import Reply, Sample
from pytest_crucible.features.cns3 import named_metrics
from pytest_crucible.features.cns3.claims import parse

REPEATS, CALLS = 5, 500
TEXT = """\
CLAIM[c1]: Tea shortens colds.
CLAIM[c2] (Document 16280642): It helped in a randomized trial of forty adults.
RELATION: c2 supports c1
CLAIM[c3] (Document 678, Document 12): It did not.
RELATION: c3 refutes c1
CLAIM[c4] (Document 12): Another of them says so too, and at length.
RELATION: c4 supports c1
"""
DOCUMENTS = {
    name: {"title": "Tea and colds", "abstract": ["In adults tea shortened colds by a day or so."] * 8}
    for name in ("16280642", "678", "12", "7", "8")
}
GOLD = {
    "claim": "Tea shortens colds.",
    "label": "SUPPORT",
    "cited": list(DOCUMENTS),
    "evidence": {"12": [0], "678": [1]},
}
SAMPLE = Sample(id="1", input="?", expected=GOLD, metadata={"documents": DOCUMENTS})
COMPATIBLE = ("schema_compliance", "citation_accuracy", "evidence_overlap", "beta1", "polarity_conflict")


def figures() -> list[Figure]:
    chosen = [
        named_metrics.strict_metric(name)
        for name in (*named_metrics.BINARY, *named_metrics.SHARES, *named_metrics.COUNTS)
    ]
    chosen += [named_metrics.thinker_metric(name) for name in COMPATIBLE]

    async def all_of_a_sample() -> None:
        reply = Reply(text=TEXT)  # a new one: what is kept of a reply is kept for this reply
        for metric in chosen:
            said = metric(reply, SAMPLE)
            if inspect.isawaitable(said):
                await said

    async def often() -> None:
        for _ in range(CALLS):
            await all_of_a_sample()

    return [
        Figure(
            name=f"CNS3: {len(chosen)} metrics of a sample",
            measured=min(timeit.repeat(lambda: asyncio.run(often()), repeat=REPEATS, number=1)) / CALLS * 1e6,
            unit="us",
            limit=200,
        ),
        Figure(name="- the parser, seven lines", measured=_microseconds(lambda: parse(TEXT)), unit="us", limit=20),
    ]


def _microseconds(call: object) -> float:
    timer = timeit.Timer(call)  # type: ignore[arg-type]
    return min(timer.repeat(REPEATS, CALLS)) / CALLS * 1e6


if __name__ == "__main__":
    raise SystemExit(show(figures()))
