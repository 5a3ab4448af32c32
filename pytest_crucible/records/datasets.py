"""Samples, where they come from, and their variants, slices, labels and decisions.

A variant is a named form of the samples, such as an attacked prompt or one with a swapped pronoun: it gives each sample a
twin, which shares its id, its group and its metadata and has an input of its own. An experiment sends each original sample,
and then its twin in each variant: to all arms, interleaved, with the same repeats. Targets and comparisons use the original
samples, unless they name a variant: `exact_match[she] >= 0.9`. A dataset brings variants along with its samples:

    Sample(id="s1", input="He is late.", variants={"she": Twin(input="She is late."), "they": NoTwin("no plural verb")})

Samples without a twin of some name do not have that variant. A variant is not part of a dataset's hash: stored replies to the
original samples stay in use when a variant is added.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal

from pytest_crucible.quick_dataclass import dataclass


class _Unchanged(enum.Enum):
    """An enumeration, so that it is the same object in every process."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""The twin has the sample's own `expected`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A sample as a variant sends it. The sample's id, group and metadata stay."""

    input: Any
    expected: Any = UNCHANGED
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the change, as JSON, which the run store keeps: which words were edited, for example."""


@dataclass(frozen=True, slots=True)
class NoTwin:
    """Marks a variant that does not apply to a sample: nothing is sent, and no metric applies."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A named variant of the samples of an experiment."""

    name: str
    """The name that targets write in brackets: `homoglyph`, or with a number, `homoglyph 0.1`."""
    twins: Mapping[str, Twin | NoTwin]
    """Sample's id -> its twin. The variant does not apply to samples without an entry."""
    key: str = ""
    """What replies depend on besides the twins: the version of the code that makes a text while a test runs, for example."""

    def twin(self, sample_id: str) -> Twin | NoTwin:
        """Return the twin of a sample, or why it has none."""
        return self.twins.get(sample_id, NO_TWIN)


NO_TWIN = NoTwin("the dataset has no twin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVariant:
    """A variant in the plan of an experiment."""

    name: str
    sha256: str
    """The hash of its twins, in the order of the samples."""
    samples: int
    """How many samples it applies to."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why it does not apply to the others: reason -> samples."""


SAME_ANSWER = "same_answer"
"""The metric that a reply to a twin has: whether it gives the same answer as the reply to the original."""
LATE = "late"
"""A fact of a twin whose text is written or found while the experiment runs: its input is the sample's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantGroup:
    """Variants that a term names together, such as the draws of one attack, or all attacked variants."""

    name: str
    """The name that targets write in brackets."""
    variants: tuple[str, ...]
    is_worst: bool = False
    """The values of a sample are their worst, not their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRules:
    """The facts of a stored plan's variants that their feature knows."""

    normalise: str = "text"
    """What makes two replies one answer, for `same_answer`."""
    kept: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """Variant -> sample -> whether the expected answer is still right, by a person's label."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that stand for several variants together."""
    attacked: tuple[str, ...] = ()
    """The variants in which somebody tries to change the reply."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Terms of a metric that only one variant has, which therefore needs no brackets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample. Its id is stable across runs and machines: arms are paired by it."""

    id: str
    input: Any
    expected: Any = None
    group: str | None = None
    """Samples that share a passage, a repository or a template share a group: they are one cluster."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Twin | NoTwin] = field(default_factory=dict)
    """Its twins by the name of their variant."""
    joined_group: str | None = None
    """The group that equal inputs make of it and others (`crucible_equal_inputs`); None in a dataset without any."""

    @property
    def cluster(self) -> str | None:
        """The group by which verdicts count it: what a test reads as `group` stays as it was declared."""
        return self.group if self.joined_group is None else self.joined_group


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The samples of one experiment, with a hash that is equal for two runs on the same samples."""

    name: str
    sha256: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a dataset, so that a run can name the version that it used."""

    source: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)
    """File -> its SHA-256 when it was read."""
    official: bool | None = None
    """True when every file is, byte for byte, the published one; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected part of a dataset, where it is not the whole."""

    of: int
    """Number of samples in the whole dataset."""
    seed: int
    """The seed with which `limit` draws."""
    split: str | None = None
    fold: str | None = None
    limit: int | None = None
    stratify: str | None = None


LONGEST_NAME = 60
"""Characters of a slice's name in a sentence."""
TWIN = "twin"
"""The field that names the version of a sample, or of its twin: `female`."""
# A name that targets may write without quotation marks.
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the samples, perhaps cut into ranges: `metadata.length(100, 200)`."""

    name: str
    cuts: tuple[float, ...] = ()

    def __str__(self) -> str:
        name = self.name if _PLAIN_NAME.fullmatch(self.name) else f'"{self.name}"'
        return f"{name}({', '.join(map(shortest, self.cuts))})" if self.cuts else name


@dataclass(frozen=True, slots=True)
class By:
    """`by language & topic within author`."""

    fields: tuple[Field, ...]
    within: Field | None = None

    def __str__(self) -> str:
        within = "" if self.within is None else f" within {self.within}"
        return f"by {self.title}{within}"

    @property
    def title(self) -> str:
        """The fields alone: `language & topic`."""
        return " & ".join(map(str, self.fields))


def short_name(name: str) -> str:
    """Return a slice's name for a sentence or a cell: on one line, printable, and cut where it is long.

    A name that has to be changed, or looks like another one, ends in a hash of the whole, so that two slices never have one name:
    an accent may be a part of its letter (NFC), or a character of its own.

    >>> short_name("law"), short_name("a" * 100 + "b")[-12:]
    ('law', 'aaa...#d89d2')
    """
    line = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in " ".join(name.split()))
    if line == name and len(line) <= LONGEST_NAME and unicodedata.is_normalized("NFC", name):
        return name
    cut = line if len(line) <= LONGEST_NAME else f"{line[:LONGEST_NAME]}..."
    return f"{cut}#{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:5]}"


def shortest(number: float) -> str:
    """Return the shortest text that reads as the same float.

    >>> shortest(2.0), shortest(0.5)
    ('2', '0.5')
    """
    return repr(number).removesuffix(".0")


_LABEL_NUMBERS = {"true": 1.0, "yes": 1.0, "1": 1.0, "attack": 1.0, "false": 0.0, "no": 0.0, "0": 0.0, "benign": 0.0}


def label_number(expected: Any) -> float | None:
    """Return 1 for a positive and 0 for a negative sample; else None.

    It is a bool, 0 or 1, or as text yes/no, true/false or attack/benign. A list of spans is positive if it has any.

    >>> label_number("yes"), label_number(0), label_number("SUPPORTS"), label_number([])
    (1.0, 0.0, None, 0.0)
    """
    if isinstance(expected, list | tuple):
        return float(len(expected) > 0)
    if isinstance(expected, str):
        return _LABEL_NUMBERS.get(expected.strip().lower())
    # A bool is an int, so that True is 1.
    return float(expected) if isinstance(expected, int | float) and expected in (0, 1) else None


# Keys of an `expected` that has several, by which the expected decision is found.
_DECISION_KEYS = ("label", "decision", "answer")


@dataclass(frozen=True, slots=True)
class AppliesTo:
    """The samples that a metric is about: those that expect a decision, or those that expect another one."""

    decision: str
    is_expected: bool


def applies(condition: AppliesTo | None, expected: Any) -> bool:
    """Return whether a metric with this condition is about a sample.

    >>> [applies(AppliesTo("approve", is_expected), {"label": "Approve"}) for is_expected in (True, False)]
    [True, False]
    """
    if condition is None:
        return True
    return same_decision(expected_decision(expected), condition.decision) == condition.is_expected


def expected_decision(expected: Any) -> Any:
    """Return the decision that a sample expects: its `expected`, or its label where that has several keys.

    >>> expected_decision({"label": "approve", "sex": "male"}), expected_decision("deny")
    ('approve', 'deny')
    """
    if not isinstance(expected, Mapping):
        return expected
    return next((expected[key] for key in _DECISION_KEYS if key in expected), None)


def same_decision(decision: Any, other: Any) -> bool:
    """Return whether two decisions are the same, capitals and spaces aside; None is no decision."""
    return decision is not None and other is not None and plain_decision(decision) == plain_decision(other)


def plain_decision(value: Any) -> str:
    """Return a decision in the form in which decisions are compared: without outer blanks and capitals.

    >>> plain_decision(" Approve")
    'approve'
    """
    return str(value).strip().casefold()


def question_text(value: Any) -> str:
    """Return a value as text; of a conversation, its last message.

    >>> question_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]), question_text(None)
    ('2 + 2?', '')
    """
    if isinstance(value, list) and value and isinstance(value[-1], dict) and isinstance(value[-1].get("content"), str):
        return str(value[-1]["content"])
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


CheckState = Literal["passed", "warned", "failed"]
Severity = Literal["error", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one data check on the samples of one dataset."""

    subject: str
    """The check as a part of a nodeid: `expect_no_missing_values(label)`."""
    call: str
    """The check as it is written in Python: `expect_no_missing_values("label")`."""
    state: CheckState
    message: str
    checked: int = 0
    """Values, rows or samples that were checked."""
    missing: int = 0
    """Missing values, which were skipped."""
    failing: int = 0
    """Values, rows or samples that do not meet the expectation."""
    samples: tuple[str, ...] = ()
    """Ids of failing samples, sorted; at most `MOST_IDS`."""

    @property
    def sentence(self) -> str:
        """The check and its result, as errors show it."""
        return f"{self.call}: {self.message}"


# Enough to find the fault; a million ids would be stored with every plan.
MOST_IDS = 100


# Directions of writing, joiners, soft hyphens: they change how a text is set, and not what it says.
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+")


def normalise(text: str) -> str:
    """Return Unicode NFKC, case folded, with white space collapsed, without invisible characters. Punctuation stays.

    >>> normalise("  The\\n Answer "), normalise("\\u200fنعم")
    ('the answer', 'نعم')
    """
    # ASCII has one normal form, and `lower` is then equal to `casefold`.
    if text.isascii():
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold().split())
