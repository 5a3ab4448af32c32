"""The code in a reply, and CodeBLEU for Python, with Python's own tokenizer and parser.

Fenced blocks are as Markdown defines them; each line is read once, so hostile text costs linear time.

Ren et al. (2020, arXiv 2009.10297): a weighted sum of n-gram match, n-gram match in which keywords count five times, match of
syntax trees, and match of data flow. The published program parses with tree-sitter, whose trees and flows have another
granularity, so its figures differ. Compare only with figures of this metric.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import textwrap
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED, expected_answers
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.reasoning import answer_span

PYTHON = {"", "python", "py", "python3", "py3", "ipython", "pycon"}
# Repetitions are possessive (++, *+): without them a long row of backticks is tried again at each length.
# A fence may be in a list item or a quotation. More than 8 markers before it are not one.
_OPENING = re.compile(
    r"(?P<lead>[ \t]*+(?:(?:[-*+>]|\d{1,9}[.)])[ \t]*+){0,8}+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^\n]*+)\n"
)
_CLOSING = re.compile(r"[ \t>]*+(?P<fence>`{3,}+|~{3,}+)\s*+\Z")
_QUOTED = re.compile(r"^[ \t]*+>[ \t]?", re.MULTILINE)
_LANGUAGE = re.compile(r"[{.\s]{0,8}(\w*)")
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one fence, without the indentation of its list item."""

    language: str
    code: str


def code_of(text: str) -> str:
    """Return the code in a reply: its first fenced block marked as Python or unmarked, else the whole text.

    A draft in the reasoning is left out; a fence that is never closed extends to the end.

    >>> code_of("Sure:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    answer = answer_of(text)
    return next((block.code for block in split_blocks(answer)[0] if block.language in PYTHON), answer)


def answer_of(text: str) -> str:
    """Return a reply without its reasoning. The indentation of its first line is kept."""
    return text[slice(*answer_span(text))]


def split_blocks(text: str) -> tuple[list[Block], str]:
    """Return the fenced blocks of a text, and the text between them."""
    blocks: list[Block] = []
    prose: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        opening = _OPENING.match(line)
        # Three backticks at both ends of a line are code inside a sentence.
        if opening is None or opening["fence"][0] in opening["info"]:
            prose.append(line)
        else:
            blocks.append(_read_block(opening, lines))
    return blocks, "".join(prose)


def _read_block(opening: re.Match[str], lines: Iterator[str]) -> Block:
    """Read lines up to the closing fence, which is at least as long as the opening one."""
    fence, content, closed = opening["fence"], [], False
    for line in lines:
        closing = _CLOSING.match(line)
        if closed := closing is not None and closing["fence"].startswith(fence):
            break
        content.append(line)
    code = "".join(content)
    if not closed and code.rstrip().endswith(fence):
        # Some models close the fence at the end of the last line of code.
        code = code.rstrip().removesuffix(fence)
    language = _LANGUAGE.match(opening["info"])
    return Block(language[1].lower() if language else "", _unwrap(code, opening["lead"]))


def _unwrap(code: str, lead: str) -> str:
    """Remove the marks of a quotation, the indentation of a list item, and the prompts of an interactive session."""
    if ">" in lead:
        code = _QUOTED.sub("", code)
    if lead:
        code = textwrap.dedent(code)
    return _PROMPT.sub("", code) if code.startswith(">>> ") else code


# Characters of code that are read.
# Parsing and counting subtrees of a runaway reply would take minutes.
LONGEST = 50_000
# As in the published program: keywords count five times.
KEYWORD_WEIGHT = 5.0
_IGNORED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_bleu_of(code: str, right: str) -> float:
    """Return the mean of the four parts, 0 to 1.

    A part for which the reference has nothing is left out; code that does not parse has no tree.

    >>> code_bleu_of("x = 1", "x = 1"), code_bleu_of("for", "x = 1")
    (1.0, 0.0)
    """
    code, right = code[:LONGEST], right[:LONGEST]
    words, reference_words = _tokens(code), _tokens(right)
    tree, reference_tree = _tree(code), _tree(right)
    weight = dict.fromkeys(keyword.kwlist, KEYWORD_WEIGHT)
    parts = [_bleu(words, reference_words, {}), _bleu(words, reference_words, weight)]
    # Trees and flow are compared as multisets, as in the paper.
    for parts_of in (_subtrees, _flow):
        reference_parts = Counter(parts_of(reference_tree)) if reference_tree else Counter[str]()
        if reference_parts:
            code_parts = Counter(parts_of(tree)) if tree else Counter[str]()
            parts.append(sum((reference_parts & code_parts).values()) / sum(reference_parts.values()))
    return sum(parts) / len(parts)


@metric(bounds=(0, 1), version="2")
def python_code_bleu(reply: Reply, sample: Sample) -> float | NotApplicable:
    """CodeBLEU of the reply's Python code against the expected code (the best of several)."""
    if sample.expected in (None, []):
        return NO_EXPECTED
    return max(code_bleu_of(code_of(reply.text), right) for right in expected_answers(sample))


def _tokens(code: str) -> list[str]:
    """Return the tokens up to the first error. Newer Pythons fail at a NUL and at a lone carriage return."""
    source = io.StringIO(code.partition("\0")[0], newline=None)
    tokens = []
    try:
        for token in tokenize.generate_tokens(source.readline):
            if token.type not in _IGNORED:
                tokens.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        pass
    return tokens


def _tree(code: str) -> ast.AST | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    # A bare body, as a base model continues a function.
    try:
        return ast.parse(f"def _():\n{code}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bleu(code: Sequence[str], reference: Sequence[str], weight: dict[str, float]) -> float:
    """Return BLEU-4 of tokens, over the orders that the reference has; single tokens count by weight. No smoothing."""
    if not code or not reference:
        return float(code == reference)
    total, orders = 0.0, min(4, len(reference))
    for order in range(1, orders + 1):
        grams, reference_grams = _grams(code, order), _grams(reference, order)
        weigh = {gram: weight.get(gram[0], 1.0) if order == 1 else 1.0 for gram in grams}
        matched = sum(min(count, reference_grams[gram]) * weigh[gram] for gram, count in grams.items())
        if not matched:
            return 0.0
        total += math.log(matched / sum(count * weigh[gram] for gram, count in grams.items()))
    return math.exp(total / orders) * min(1.0, math.exp(1 - len(reference) / len(code)))


def _grams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[k : k + order]) for k in range(len(tokens) - order + 1))


def _subtrees(tree: ast.AST) -> Iterator[str]:
    """Yield each node with the kinds of its children: names and values do not count."""
    for node in ast.walk(tree):
        children = [type(child).__name__ for child in ast.iter_child_nodes(node)]
        if children:
            yield f"{type(node).__name__}({','.join(children)})"


def _flow(tree: ast.AST) -> Iterator[str]:
    """Yield the sources of each variable, as "2 from 0,1". Variables are numbered, so that their names do not count."""
    numbers: dict[str, int] = {}
    for node in ast.walk(tree):
        for name in _names(node):
            numbers.setdefault(name, len(numbers))
    for node in ast.walk(tree):
        target, source = _assignment(node)
        for name in target:
            yield f"{numbers[name]} from {','.join(str(number) for number in sorted({numbers[used] for used in source}))}"


def _assignment(node: ast.AST) -> tuple[list[str], list[str]]:
    if isinstance(node, ast.Assign):
        return [name for target in node.targets for name in _all_names(target)], _all_names(node.value)
    if isinstance(node, ast.AugAssign):
        return _all_names(node.target), _all_names(node.target) + _all_names(node.value)
    if isinstance(node, ast.For | ast.comprehension):
        return _all_names(node.target), _all_names(node.iter)
    return [], []


def _all_names(node: ast.AST) -> list[str]:
    return [name for inner in ast.walk(node) for name in _names(inner)]


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    return [node.arg] if isinstance(node, ast.arg) else []
