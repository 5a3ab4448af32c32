"""What is known of a sample: the claim, its label, the documents that were shown, and which of them are evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_crucible.records import Sample

Stance = Literal["SUPPORT", "CONTRADICT", "NEI"]


@dataclass(frozen=True, slots=True)
class Document:
    """An abstract, sentence by sentence."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.title, *self.sentences))


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answers to one sample."""

    claim: str
    label: Stance
    cited: tuple[str, ...]
    """All documents that the sample's author cited, evidence or not: what Thinker's evaluation asks for."""
    evidence: Mapping[str, tuple[int, ...]]
    """Document to its sentences that are evidence."""
    documents: Mapping[str, Document]
    """The documents of the prompt, where they are given."""


def gold_of(sample: Sample) -> Gold:
    """Read `expected` (claim, label, cited, evidence) and `metadata` (documents). Raises ValueError for what is missing."""
    given: Any = sample.expected
    if not isinstance(given, Mapping) or not isinstance(given.get("claim"), str):
        raise ValueError(
            f"sample {sample.id!r} expects {type(given).__name__}: the CNS3 metrics need a mapping with 'claim', 'label', "
            "'cited' and 'evidence', as pytest_crucible.cns3.scifact makes it"
        )
    documents = sample.metadata.get("documents", {})
    return Gold(
        claim=given["claim"],
        label=given.get("label", "NEI"),
        cited=tuple(map(str, given.get("cited", ()))),
        evidence={str(one): tuple(lines) for one, lines in given.get("evidence", {}).items()},
        documents={str(name): Document(one["title"], tuple(one["abstract"])) for name, one in documents.items()},
    )
