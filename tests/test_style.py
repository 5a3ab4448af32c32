"""The language of the code: names say what a value is or what a function does, and docstrings begin with a sentence.

CONTRIBUTING has the rules in words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [
    path
    for folder in ("pytest_crucible", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__) and ROOT / "tests" / "peers" / "files" not in path.parents  # programs for other harnesses
]
STORED = frozenset(
    [
        "pytest_crucible/features/robustness/marks.py",
        "pytest_crucible/features/robustness/records.py",
        "pytest_crucible/records/arms.py",
        "pytest_crucible/records/datasets.py",
        "pytest_crucible/records/usage.py",
    ]
)
"""Files whose fields and arguments have the names that stored runs, lineages and markers have, fillers too."""
FILLERS = frozenset(
    ["one", "found", "given", "said", "told", "known", "wanted", "asked", "kept", "shown", "seen", "made", "taken"]
)
"""They say that there is a value, and not which."""
NO_SENTENCE = re.compile(
    r"(What|Who|Whom|Whose|Whether|Where|When|Why|How|Which|That|As|For|To|By|From|In|On|Of|With|Is|Are|Does) \w"
)
PARTICIPLE = re.compile(r"_?[a-z]+(ed|own|ought|aught|aid|ept|iven|aken|ound|ade|een|ritten|hosen|roken|old|one)")
VERBS_AND_NOUNS = frozenset(
    [
        "accept",
        "alone",
        "bound",
        "cascade",
        "clone",
        "embed",
        "exceed",
        "feed",
        "fold",
        "hold",
        "median",
        "need",
        "read",
        "round",
        "seed",
        "shared",
        "shutdown",
        "speed",
        "sound",
        "tone",
        "unknown",
        "upgrade",
        "threshold",
    ]
)
"""They only look like participles."""
PREDICATES = frozenset(["blocked", "caught", "flagged", "leaked", "obeyed", "selected", "truncated"])
"""Metrics are named by what is true of a reply."""
DIALECT = re.compile(
    r"cannot be meant|\b(nobody|whoever|anew)\b|\b(is|are|was|were) told\b(?! apart)|says itself|\basks? nothing\b|"
    r"what it took\b|\bgo(es)? on with\b|\bthere are such\b|\bto hear of\b|\bwhom\b|\bare those that there are\b",
    re.IGNORECASE,
)
"""Phrases of which a reader asks who or what is meant, and those of another language."""
QUOTED = re.compile(r'"nobody"|Nobody is eating')
"""A user of the system, and the text of a sample."""


def violations(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield each rule that a file breaks, with the line and the text."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg | ast.Name) and is_filler(node):
            yield "fillers", node.lineno, ast.unparse(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            sentence = (ast.get_docstring(node) or "").split("\n")[0]
            if NO_SENTENCE.match(sentence):
                yield "fragments", getattr(node, "lineno", 1), sentence
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_named_by_participle(node):
            yield "participles", node.lineno, node.name
    for number, line in enumerate(text.splitlines(), 1):
        if DIALECT.search(QUOTED.sub("", line).replace("_", " ")):
            yield "dialect", number, line.strip()


def is_filler(node: ast.arg | ast.Name) -> bool:
    return node.arg in FILLERS if isinstance(node, ast.arg) else node.id in FILLERS and isinstance(node.ctx, ast.Store)


def is_named_by_participle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is; properties and fixtures may be, because they are used as values."""
    if any(re.search("property|fixture", ast.unparse(decorator)) for decorator in function.decorator_list):
        return False
    return bool(PARTICIPLE.fullmatch(function.name)) and function.name.strip("_") not in VERBS_AND_NOUNS | PREDICATES


# One test for all rules: most of its time is reading and parsing the files.
def test_names_and_docstrings_follow_the_rules():
    places = [
        f"{rule}: {path}:{line}: {text}"
        for file in FILES
        for rule, line, text in violations(file)
        if not ((path := file.relative_to(ROOT).as_posix()) in STORED and rule == "fillers")
    ]

    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("found = 1", ["fillers"]),
        ("for one in range(3): pass", ["fillers"]),
        ("def load(given): pass", ["fillers"]),
        ("def loaded(): pass", ["participles"]),
        ("@property\ndef loaded(self): pass", []),
        ("def embed(): pass", []),
        ('"""Whose turn it is."""', ["fragments"]),
        ('"""Return whose turn it is."""', []),
        ('"""Whereabouts of a file."""', []),
        ("text = 'ask ' 'nobody'", ["dialect"]),
        ("def test_what_cannot_be_meant(): pass", ["dialect"]),
    ],
)
def test_each_rule_is_recognised(tmp_path, source, rules):
    (tmp_path / "module.py").write_text(source)

    assert [rule for rule, _, _ in violations(tmp_path / "module.py")] == rules
