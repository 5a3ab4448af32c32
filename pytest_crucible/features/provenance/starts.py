"""Finds the nodes of a store's graph that `--file`, `--checkpoint` and `--commit` name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_crucible.backends.lineages import read_lineage
from pytest_crucible.backends.offline import load_recorded
from pytest_crucible.datasets import identify, load_file
from pytest_crucible.features.provenance.graph import Graph, GraphDraft, Node, targets
from pytest_crucible.features.provenance.made_from import add_file
from pytest_crucible.local_model.checkpoints import find_sampler_file
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.files import hash_file

MOST_NAMES = 10
"""Names that an error lists, where none is similar."""
_HEX = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Start:
    """A file, a checkpoint or a commit."""

    title: str
    """`train.jsonl (SHA-256 0c1e...)`."""
    nodes: tuple[str, ...]
    """Keys of its nodes; empty if the store knows nothing of it."""


def find_file(draft: GraphDraft, named: str) -> Start:
    """Return a file by its path, or by the beginning of its SHA-256. Raises SpecError.

    A path is found by its content, whatever its name: as training data, weights, a prompt, recorded replies, or the samples of
    a dataset.
    """
    path, nodes = Path(named).expanduser(), list(draft.nodes.values())
    if path.is_file():
        digest, rows, replies = hash_file(path), _rows_sha256(path), _recorded_identity(path)
        for node in nodes:
            if node.type == "adapter" and node.facts["identity"] == replies:
                # An adapter of recorded replies is identified by their rows.
                draft.relate(node.key, "derived from", add_file(draft, digest, path.name))
        nodes = list(draft.nodes.values())
        keys = [
            node.key for node in nodes if digest in _hashes(node) or (rows and node.facts.get("rows_sha256") == rows)
        ]
        return Start(f"{path.name} (SHA-256 {digest})", tuple(keys))
    if path.is_dir():
        raise SpecError(f"--file {named!r} is a directory: name a file, or its SHA-256")
    if _HEX.fullmatch(named):
        return _by_prefix([each for each in nodes if each.type in ("file", "checkpoint")], named.lower(), "SHA-256")
    files = [each for each in nodes if each.type == "file"]
    of_name = dict.fromkeys(each.facts["sha256"] for each in files if Path(each.label).name == path.name)
    former = f"a file of this name had SHA-256 {' or '.join(of_name)}: write that" if of_name else ""
    hint = former or suggest(named, {each.label for each in files}, otherwise="correct the path")
    raise SpecError(f"--file {named!r} is neither a file nor the beginning of a SHA-256: {hint}")


def find_checkpoint(draft: GraphDraft, named: str) -> Start:
    """Return weights by their path or path on a service, or adapters by name or identity. Raises SpecError."""
    candidates = [each for each in draft.nodes.values() if each.type in ("adapter", "checkpoint")]
    path = Path(named).expanduser()
    if path.exists():
        names = _names_of_weights(path)
        keys = tuple(each.key for each in candidates if names & _hashes(each))
        return Start(f"{named} ({' and '.join(sorted(names))})", keys)
    names_of = (each for each in candidates if named == each.label or named in _hashes(each))
    start = Start(f"checkpoint {named}", tuple(each.key for each in names_of))
    if not start.nodes and not _HEX.fullmatch(named):
        labels = sorted({each.label for each in candidates})
        hint = suggest(named, labels, otherwise=f"it has {', '.join(labels[:MOST_NAMES]) or 'none'}")
        raise SpecError(f"--checkpoint {named!r} is neither a path nor a checkpoint or adapter of this store: {hint}")
    start = start if start.nodes else _by_prefix(candidates, named.lower(), "checkpoint")
    return replace(start, nodes=tuple(dict.fromkeys((*start.nodes, *_own_weights(draft.build(), start.nodes)))))


def find_commit(draft: GraphDraft, named: str) -> Start:
    """Return a commit by the beginning of its SHA. Raises SpecError."""
    if not _HEX.fullmatch(named):
        raise SpecError(f"--commit {named!r} is not a commit: write 4 or more characters of its SHA, see git rev-parse")
    commits = [each for each in draft.nodes.values() if each.type == "commit"]
    return _by_prefix(commits, named.lower(), "commit")


def _own_weights(graph: Graph, keys: Iterable[str]) -> list[str]:
    """Return the weights of each adapter that has no others: what was trained from them depends on the adapter."""
    weights: list[str] = []
    for key in keys:
        sources = [each.key for each in targets(graph, key, "derived from") if each.type == "checkpoint"]
        weights += sources if graph.nodes[key].type == "adapter" and len(sources) == 1 else []
    return weights


def _by_prefix(nodes: Iterable[Node], prefix: str, word: str) -> Start:
    """Return the nodes with a hash that begins with a prefix. Raises SpecError for several hashes."""
    matching = {name: node for node in nodes for name in _hashes(node) if name.startswith(prefix)}
    if len(matching) > 1:
        raise SpecError(f"{word} {prefix} is the beginning of {', '.join(sorted(matching))}: write more of it")
    for name, node in matching.items():
        title = f"{word} {name}" if node.type != "file" else f"{node.label} ({word} {name})"
        return Start(title, (node.key,))
    return Start(f"{word} {prefix}", ())


def _hashes(node: Node) -> set[str]:
    """Return the hashes of a node, and of weights on a service their paths."""
    names = ("sha256", "weights", "state", "identity", "commit")
    return {str(node.facts[name]) for name in names if node.facts.get(name)}


def _rows_sha256(path: Path) -> str | None:
    """Return the hash of the samples of a file; None for a file without samples."""
    try:
        return identify(path.name, load_file(path)).sha256
    except SpecError:
        return None


def _recorded_identity(path: Path) -> str | None:
    """Return the identity of an adapter with the recorded replies in a file; None for another file."""
    try:
        return load_recorded(path).identity
    except SpecError:
        return None


def _names_of_weights(path: Path) -> set[str]:
    """Return the SHA-256 of weights, or their paths on a service. Raises SpecError for a directory without weights."""
    lineage = read_lineage(path)
    of_service = {name for name in (lineage.checkpoint, lineage.state) if name} if lineage else set()
    file = find_sampler_file(path) if path.is_dir() else path
    if not of_service and not file.is_file():
        raise SpecError(f"--checkpoint {str(path)!r} is a directory without weights: name a checkpoint")
    return of_service or {hash_file(file)}
