"""The gold answer of a sample: the claim, its label, the documents of the prompt, and the evidence among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_crucible.records import Sample
from pytest_crucible.records.type_names import describe_type

Stance = Literal["SUPPORT", "CONTRADICT", "NEI"]


@dataclass(frozen=True, slots=True)
class Document:
    """An abstract, in sentences."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.title, *self.sentences))


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answer to one sample."""

    claim: str
    label: Stance
    cited: tuple[str, ...]
    """All documents that the sample's author cited, evidence or not: those that Thinker's evaluation expects."""
    evidence: Mapping[str, tuple[int, ...]]
    """The sentences of each document that are evidence."""
    documents: Mapping[str, Document]
    """The documents of the prompt, if known."""


def read_gold(sample: Sample) -> Gold:
    """Read `expected` (claim, label, cited, evidence) and `metadata` (documents). Raises ValueError if something is missing."""
    expected: Any = sample.expected
    if not isinstance(expected, Mapping) or not isinstance(expected.get("claim"), str):
        raise ValueError(
            f"sample {sample.id!r} expects {describe_type(expected)}; the CNS3 metrics need a mapping with 'claim', 'label', "
            "'cited' and 'evidence', as pytest_crucible.presets.cns3.scifact makes it"
        )
    documents = sample.metadata.get("documents", {})
    return Gold(
        claim=expected["claim"],
        label=expected.get("label", "NEI"),
        cited=tuple(map(str, expected.get("cited", ()))),
        evidence={str(document): tuple(lines) for document, lines in expected.get("evidence", {}).items()},
        documents={
            str(name): Document(document["title"], tuple(document["abstract"])) for name, document in documents.items()
        },
    )
