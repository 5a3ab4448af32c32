"""The list of token prices that Tinker publishes beside its page "Models & Pricing", as tables of a project's configuration."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError

URL = "https://tinker-docs.thinkingmachines.ai/tinker/models.json"
WAIT_S = 10.0
KINDS = {"input": "prefill", "output": "sample", "cached": "cached_prefill"}
"""Names of prices in the configuration, and in the list: US dollars for a million tokens."""


def read_price_list(source: str) -> dict[str, dict[str, float]]:
    """Return the prices of models in a file or at a URL; without a model whose prices are incomplete. Raises SpecError."""
    listed = _fetch(source) if source.startswith(("http://", "https://")) else _read(Path(source))
    if not isinstance(listed, Sequence) or not all(isinstance(entry, Mapping) for entry in listed):
        raise SpecError(
            f"{source} is not a price list: expected JSON, a list of models with {', '.join(KINDS.values())}"
        )
    models = {str(entry.get("tinker_id", "")): dict(_prices(entry)) for entry in listed}
    return {name: prices for name, prices in models.items() if name and len(prices) == len(KINDS)}


def price_lines(models: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the tables, which the session looks up by the base of a checkpoint."""
    for name, prices in models.items():
        yield f'[prices."tinker:{name}"]'
        yield from (f"{kind} = {price:g}" for kind, price in prices.items())
        yield ""


def _prices(entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the prices of a model that can be read: they are texts such as "$1.87"."""
    for kind, name in KINDS.items():
        try:
            yield kind, float(str(entry.get(name)).strip().lstrip("$").replace(",", ""))
        except ValueError:
            continue


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be read as a price list: {error}") from None


def _fetch(url: str) -> Any:
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        answer = httpx.get(url, timeout=WAIT_S, follow_redirects=True)
        return answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise SpecError(f"{url} gives no price list: {error}: download it and name the file with --from") from None
