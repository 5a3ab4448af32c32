"""CodeBLEU for Python, with Python's own tokenizer and parser.

Ren et al. (2020, arXiv 2009.10297): a weighted sum of n-gram match, n-gram match in which keywords count five times, match of
syntax trees, and match of data flow. The published program parses with tree-sitter; trees and flows are finer or coarser there, so
that its figures are not these. Compare with figures of this metric only.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.programs import code_of
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

LONGEST = 50_000
"""Characters of code that are read."""
KEYWORD_WEIGHT = 5.0
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_bleu_of(said: str, right: str) -> float:
    """The mean of the four parts, 0 to 1. A part that the reference has nothing for is left out; what does not parse has no tree.

    >>> code_bleu_of("x = 1", "x = 1"), code_bleu_of("for", "x = 1")
    (1.0, 0.0)
    """
    said, right = said[:LONGEST], right[:LONGEST]
    words, wanted = _tokens(said), _tokens(right)
    tree, wanted_tree = _tree(said), _tree(right)
    weight = dict.fromkeys(keyword.kwlist, KEYWORD_WEIGHT)
    parts = [_bleu(words, wanted, {}), _bleu(words, wanted, weight)]
    for of in (_subtrees, _flow):
        needed = Counter(of(wanted_tree)) if wanted_tree else Counter[str]()
        if needed:
            found = Counter(of(tree)) if tree else Counter[str]()
            parts.append(sum((needed & found).values()) / sum(needed.values()))
    return sum(parts) / len(parts)


@metric(bounds=(0, 1), version="1")
def python_code_bleu(reply: Reply, sample: Sample) -> float | NotApplicable:
    """CodeBLEU of the reply's Python code against the expected code (the best of several), by Python's own parser."""
    expected = sample.expected
    if expected is None or expected == []:
        return NO_EXPECTED
    rights = expected if isinstance(expected, list | tuple) else [expected]
    return max(code_bleu_of(code_of(reply.text), str(right)) for right in rights)


def _tokens(code: str) -> list[str]:
    """As far as it can be read. Tokenizers of newer Pythons break down at a NUL, and at a lone carriage return."""
    source = io.StringIO(code.partition("\0")[0], newline=None)
    found = []
    try:
        for token in tokenize.generate_tokens(source.readline):
            if token.type not in _SILENT:
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def _tree(code: str) -> ast.AST | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    try:  # a body alone, as a base model continues a function
        return ast.parse(f"def _():\n{code}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bleu(said: Sequence[str], right: Sequence[str], weight: dict[str, float]) -> float:
    """BLEU-4 of tokens, of the orders that the reference has; single tokens count by weight. No smoothing."""
    if not said or not right:
        return float(said == right)
    total, orders = 0.0, min(4, len(right))
    for order in range(1, orders + 1):
        found, wanted = _grams(said, order), _grams(right, order)
        weigh = {gram: weight.get(gram[0], 1.0) if order == 1 else 1.0 for gram in found}
        matched = sum(min(count, wanted[gram]) * weigh[gram] for gram, count in found.items())
        if not matched:
            return 0.0
        total += math.log(matched / sum(count * weigh[gram] for gram, count in found.items()))
    return math.exp(total / orders) * min(1.0, math.exp(1 - len(right) / len(said)))


def _grams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[k : k + order]) for k in range(len(tokens) - order + 1))


def _subtrees(tree: ast.AST) -> Iterator[str]:
    """Each node with its children's kinds: names and values do not count."""
    for node in ast.walk(tree):
        children = [type(child).__name__ for child in ast.iter_child_nodes(node)]
        if children:
            yield f"{type(node).__name__}({','.join(children)})"


def _flow(tree: ast.AST) -> Iterator[str]:
    """Which variable comes from which: "2 from 0,1". Names are numbered by first appearance, so that renaming changes nothing."""
    numbers: dict[str, int] = {}
    for node in ast.walk(tree):
        for name in _names(node):
            numbers.setdefault(name, len(numbers))
    for node in ast.walk(tree):
        target, source = _assignment(node)
        for name in target:
            yield f"{numbers[name]} from {','.join(str(one) for one in sorted({numbers[used] for used in source}))}"


def _assignment(node: ast.AST) -> tuple[list[str], list[str]]:
    if isinstance(node, ast.Assign):
        return [name for one in node.targets for name in _all_names(one)], _all_names(node.value)
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
