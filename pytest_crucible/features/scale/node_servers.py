"""The servers of nodes, one on each, which have to serve the same checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.backends.openai.backend import describe_models
from pytest_crucible.backends.openai.settings import NODE, read_settings
from pytest_crucible.records import Adapter

Models = Mapping[str, Mapping[str, Any]]
"""The models of a server by name, with what it reports of each."""


def read_node_servers(adapters: Iterable[Adapter], root: Path, node: str) -> dict[str, tuple[str, Models]]:
    """Return for each adapter with a server on each node its model, and the models of this node's server."""
    servers: dict[str, tuple[str, Models]] = {}
    for adapter in adapters:
        if NODE in str(adapter.options.get("base_url", "")):
            settings = read_settings(adapter, root, node=node)
            servers[adapter.name] = settings.model, describe_models(settings)
    return servers


def compare_node_servers(nodes: Mapping[str, Mapping[str, tuple[str, Models]]]) -> list[str]:
    """Return a sentence for each server that serves another checkpoint than that of the first node.

    A server that lists no models is not compared: it may be starting, or hide them.

    >>> first, second = ({"v2": ("v2", {"v2": {"root": root}})} for root in ("/models/a", "/models/b"))
    >>> compare_node_servers({"gpu-1": first, "gpu-3": second})
    ["gpu-3 serves 'v2' from checkpoint /models/b, gpu-1 from /models/a: load the same checkpoint on each node"]
    """
    sentences: list[str] = []
    first: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for node, servers in nodes.items():
        for adapter, (model, models) in servers.items():
            if not models:
                continue
            if model not in models:
                sentences.append(f"{node} serves {', '.join(map(repr, sorted(models)))}, not {model!r}: load it there")
                continue
            earlier, facts = first.setdefault(adapter, (node, models[model]))
            if facts != models[model]:
                own, other = _checkpoint(models[model], facts), _checkpoint(facts, models[model])
                sentences.append(
                    f"{node} serves {model!r} from checkpoint {own}, {earlier} from {other}: "
                    "load the same checkpoint on each node"
                )
    return sentences


def _checkpoint(facts: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return the name of a checkpoint: its `root`, or a digest of all facts where the roots are equal."""
    if facts.get("root") != others.get("root") and facts.get("root"):
        return str(facts["root"])
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=repr).encode()).hexdigest()[:4]
