"""The claim format: lines with claims and relations between them, and their parser and writer.

CLAIM[c1]: the central hypothesis
CLAIM[c2] (Document 12345): what a document says
RELATION: c2 supports c1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from pytest_crucible.quick_dataclass import dataclass

Label = Literal["supports", "refutes", "contrasts"]
CENTRAL = "c1"
# Accepted words for relations, and the relation that each means.
SYNONYMS: Mapping[str, Label] = {
    "supports": "supports",
    "refutes": "refutes",
    "contradicts": "refutes",
    "contrasts": "contrasts",
}
Defect = Literal[
    "unreadable", "marked up", "empty claim", "duplicate id", "gap in ids", "no central claim", "unknown id",
    "unknown label", "relates to itself", "unrelated claim", "cut off",
]  # fmt: skip

# \s*+ is possessive: two repetitions of blanks side by side would be tried in all their divisions, in quadratic time.
_LINE = re.compile(
    r"(?P<mark>(?:[-*+>#]+|\d+[.)])\s+|[*_`]{1,3})?"
    r"(?:CLAIM\[(?P<id>[^\]\s]{1,40})\](?P<sources>\s*+\([^()]*+\))?\s*+:\s*+(?P<text>.*)"
    r"|RELATION\s*+(?:[:\-]\s*+)?(?P<source>\S+)\s+(?P<label>[a-z]+)\s+(?P<target>\S+))",
    re.IGNORECASE,
)
_SOURCES = re.compile(r"\s*\(\s*(?:documents?\s+)?\d+(?:\s*(?:,|;|and\s)\s*(?:documents?\s+)?\d+)*\s*\)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
# At most nine digits: a model can write longer numbers, which Python may refuse to convert.
_NUMBERED = re.compile(r"c([1-9]\d{0,8})")
_PUNCTUATION = "[]().,;:!?\"'`*_"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, with the documents that it cites."""

    id: str
    text: str
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two claims."""

    source: str
    label: Label
    target: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw, and its line, counted from 1; 0 if it concerns no single line."""

    defect: Defect
    line: int
    detail: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """The claims and relations of a reply, and all flaws of its form."""

    claims: tuple[Claim, ...]
    relations: tuple[Relation, ...]
    flaws: tuple[Flaw, ...] = ()

    @property
    def well_formed(self) -> bool:
        """True if no line has a flaw and there is a central claim."""
        return not self.flaws

    @property
    def central(self) -> str:
        """The text of c1; empty without a c1."""
        return next((claim.text for claim in self.claims if claim.id == CENTRAL), "")

    @property
    def documents(self) -> tuple[str, ...]:
        """All cited documents, each once, in the order of first citation."""
        return tuple(dict.fromkeys(document for claim in self.claims for document in claim.documents))


def parse(reply: str, *, cut_off: bool = False) -> Extraction:
    """Parse each line that is not blank. `cut_off`: the reply ended at its token limit, so its last line is incomplete.

    Ids and labels are read in any case, and without punctuation around them (`c2 supports c1.`). Markdown before a claim is a
    flaw, but the claim is read. Of two claims with one id, the first counts.

    >>> extraction = parse("CLAIM[c1]: Tea helps.\\nCLAIM[c2] (Document 7, Document 9): It helped.\\nRELATION: c2 supports c1.")
    >>> extraction.documents, extraction.relations[0].target, extraction.well_formed
    (('7', '9'), 'c1', True)
    """
    reader = _Reader()
    lines = [(number, line) for number, raw in enumerate(reply.split("\n"), start=1) if (line := raw.strip())]
    for number, line in lines:
        reader.read(number, line)
    flaws = [*reader.flaws, *_document_flaws(reader.claims, reader.relations, reader.lines)]
    if cut_off and lines:
        flaws.append(Flaw("cut off", lines[-1][0], "the reply ended at its limit"))
    # Flaws of no single line come last.
    flaws.sort(key=lambda flaw: (flaw.line == 0, flaw.line))
    return Extraction(tuple(reader.claims.values()), tuple(relation for _, relation in reader.relations), tuple(flaws))


def render(claims: Iterable[Claim], relations: Iterable[Relation]) -> str:
    """Write the lines: each claim, followed by the relations that start from it. `parse` reads them back.

    >>> print(render([Claim("c1", "Tea helps."), Claim("c2", "It helped.", ("7",))], [Relation("c2", "supports", "c1")]))
    CLAIM[c1]: Tea helps.
    CLAIM[c2] (Document 7): It helped.
    RELATION: c2 supports c1
    """
    unwritten = list(relations)
    lines = []
    for claim in claims:
        cited = f" ({', '.join(f'Document {document}' for document in claim.documents)})" if claim.documents else ""
        lines.append(f"CLAIM[{claim.id}]{cited}: {claim.text}")
        lines += [_relation_line(relation) for relation in unwritten if relation.source == claim.id]
        unwritten = [relation for relation in unwritten if relation.source != claim.id]
    return "\n".join([*lines, *map(_relation_line, unwritten)])


def _relation_line(relation: Relation) -> str:
    return f"RELATION: {relation.source} {relation.label} {relation.target}"


class _Reader:
    """Reads one line after the other."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.relations: list[tuple[int, Relation]] = []
        self.flaws: list[Flaw] = []
        self.lines: dict[str, int] = {}
        """The line of each claim."""

    def read(self, number: int, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            self.flaws.append(Flaw("unreadable", number, line[:80]))
            return
        mark, name, sources, text, source, label, target = match.groups()
        if mark:
            self.flaws.append(Flaw("marked up", number, mark.strip()))
        if name is None:
            self._relation(number, source, label, target)
        else:
            self._claim(number, name.lower(), sources, text)

    def _claim(self, number: int, name: str, sources: str | None, text: str) -> None:
        documents = _documents(sources)
        if documents is None and sources is not None:
            self.flaws.append(Flaw("unreadable", number, sources.strip()[:80]))
        if not text:
            self.flaws.append(Flaw("empty claim", number, name))
        # The first one counts: relations refer to claims above them.
        if name in self.claims:
            self.flaws.append(Flaw("duplicate id", number, name))
            return
        self.claims[name] = Claim(name, text, documents or ())
        self.lines[name] = number

    def _relation(self, number: int, source: str, word: str, target: str) -> None:
        label = SYNONYMS.get(word.lower())
        if label is None:
            self.flaws.append(Flaw("unknown label", number, word[:40]))
            return
        source, target = source.strip(_PUNCTUATION).lower(), target.strip(_PUNCTUATION).lower()
        if source == target:
            self.flaws.append(Flaw("relates to itself", number, source))
        self.relations.append((number, Relation(source, label, target)))


def _documents(text: str | None) -> tuple[str, ...] | None:
    """Return the ids in `(Document 1, Document 2)`, each once; None if the text is something else."""
    if text is None:
        return ()
    return tuple(dict.fromkeys(_NUMBER.findall(text))) if _SOURCES.fullmatch(text) else None


def _document_flaws(
    claims: Mapping[str, Claim], relations: Iterable[tuple[int, Relation]], lines: Mapping[str, int]
) -> Iterator[Flaw]:
    """Yield the flaws that no single line shows."""
    if CENTRAL not in claims:
        yield Flaw("no central claim", 0, "no line is CLAIM[c1]")
    # Checked last: a relation may precede the claim that it names.
    for line, relation in relations:
        if relation.source not in claims:
            yield Flaw("unknown id", line, relation.source)
        if relation.target not in claims:
            yield Flaw("unknown id", line, relation.target)
    sources = {relation.source for _, relation in relations}
    for place, name in enumerate(claims, start=1):
        if name == f"c{place}":
            continue
        number = _NUMBERED.fullmatch(name)
        if number is None or int(number[1]) != place:
            yield Flaw("gap in ids", lines[name], f"{name} in place of c{place}")
            break
    for name in claims:
        if name != CENTRAL and name not in sources:
            yield Flaw("unrelated claim", lines[name], name)


# Thinker's own pattern.
_EVALUATION = re.compile(r"[Dd]ocument\s+(\d+)|doc_id[:\s=]+(\d+)|\[(\d{5,})\]")


@dataclass(frozen=True, slots=True)
class Citations:
    """The documents that were cited, that should have been, and that could have been."""

    cited: frozenset[str]
    gold: frozenset[str]
    in_prompt: frozenset[str]
    """The documents of the prompt."""

    @property
    def precision(self) -> float | None:
        """Share of the cited documents that are gold; None if none is cited."""
        return len(self.cited & self.gold) / len(self.cited) if self.cited else None

    @property
    def recall(self) -> float | None:
        """Share of the gold documents that are cited; None without gold documents."""
        return len(self.cited & self.gold) / len(self.gold) if self.gold else None

    @property
    def exists(self) -> float | None:
        """Share of the cited documents that are in the prompt; the rest are invented. None if none is cited."""
        return len(self.cited & self.in_prompt) / len(self.cited) if self.cited else None

    @property
    def any(self) -> bool | None:
        """True if a gold document is cited; None without gold documents."""
        return bool(self.cited & self.gold) if self.gold else None

    @property
    def complete(self) -> bool:
        """True if something is cited and no gold document is left out: valid by Thinker's evaluation."""
        return bool(self.cited) and self.gold <= self.cited

    @property
    def exact(self) -> bool | None:
        """True if gold documents are cited and no others; None without gold documents."""
        return bool(self.cited) and self.cited <= self.gold if self.gold else None


@lru_cache(maxsize=1)
def mentioned_ids(reply: str) -> frozenset[str]:
    """Return the ids that Thinker's evaluation takes for citations: anywhere in the reply, even where it echoes the prompt.

    >>> sorted(mentioned_ids("Document 12 says so, doc_id=7, see [31715818] and [3]"))
    ['12', '31715818', '7']
    """
    return frozenset(group for groups in _EVALUATION.findall(reply) for group in groups if group)


def beta1(claims: Iterable[Claim], relations: Iterable[Relation], *, multigraph: bool = True) -> int:
    """Return the first Betti number of the undirected graph, E - V + C: the relations that could go before it falls apart.

    As a multigraph, two claims that relate to each other form a hole; as a simple graph (Thinker's reading), both relations are
    one edge. Relations of unknown claims do not count.

    >>> claims = [Claim("c1", ""), Claim("c2", "")]
    >>> both = [Relation("c1", "supports", "c2"), Relation("c2", "supports", "c1")]
    >>> beta1(claims, both), beta1(claims, both, multigraph=False)
    (1, 0)
    """
    ids = {claim.id for claim in claims}
    edges = [(relation.source, relation.target) for relation in relations if {relation.source, relation.target} <= ids]
    if not multigraph:
        edges = list({tuple(sorted(edge)): edge for edge in edges}.values())
    return len(edges) - len(ids) + len(set(find_roots(ids, edges).values()))


def find_roots(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first name, by the alphabet, of each name's connected component."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            # Path halving keeps the trees flat.
            parent[name] = name = parent[parent[name]]
        return name

    for edge in edges:
        first, second = sorted(map(root, edge))
        parent[second] = first
    return {name: root(name) for name in parent}


def polarity_conflict(relations: Iterable[Relation]) -> bool:
    """Return whether the central claim is both supported and refuted: right if the documents disagree, and no error of the reply.

    >>> polarity_conflict([Relation("c2", "supports", "c1"), Relation("c3", "refutes", "c1")])
    True
    """
    labels = {relation.label for relation in relations if relation.target == CENTRAL}
    return {"supports", "refutes"} <= labels
