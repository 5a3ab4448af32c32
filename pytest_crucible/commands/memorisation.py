"""The parts of `crucible contamination` that ask a model: the order test and min-K%."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.commands.adapter_argument import Adapters
from pytest_crucible.commands.dataset_argument import load_dataset
from pytest_crucible.datasets.checks.columns import text_of
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import BackendError, DatasetError, SpecError
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.memorisation import run_min_k_test, run_order_test
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_equals


@dataclass(frozen=True)
class RequestedTests:
    """The tests of memorisation that a command has to run."""

    adapter: str
    order_test: bool
    orders: int
    seed: int
    min_k: bool
    base: str
    fresh: str
    store: str
    """The run store, where versions such as `claims@4` are registered."""
    fields: Sequence[str] = ()
    """Names of fields, such as `input=question`, in the dataset and in the fresh file."""

    @property
    def level(self) -> float:
        """The error rate of each test: two tests of one question share it (Bonferroni)."""
        return DEFAULT_ALPHA / (self.order_test + self.min_k)

    def check(self) -> None:
        """Raise SpecError for options that lack others."""
        if self.min_k and not (self.base and self.fresh):
            raise SpecError("--min-k needs --base and --fresh: without them it only shows which texts are easy")
        if not self.min_k and (self.base or self.fresh):
            raise SpecError("--base and --fresh are for --min-k: add it, or leave them out")
        if (self.order_test or self.min_k) and not self.adapter:
            option = "--order-test" if self.order_test else "--min-k"
            raise SpecError(f"{option} needs --adapter: name the adapter to test, such as --adapter v2")
        if self.adapter and not (self.order_test or self.min_k):
            raise SpecError("--adapter needs a test: add --order-test, or --min-k with --base and --fresh")
        if self.orders < 1:
            raise SpecError(f"--orders {self.orders} is not a number of orders: write for example --orders 99")


NOT_THE_ORDER = (
    "  a file that was read in another order, as trainers that shuffle read it, is not found so: use --min-k"
)


def run_tests(
    requested: RequestedTests, name: str, samples: Sequence[Sample]
) -> tuple[list[str], dict[str, Any], bool]:
    """Return lines, the JSON document, and whether memorisation is proven. Raises SpecError."""
    adapters = Adapters(Path.cwd(), requested.store)
    texts = [text_of(sample.input) for sample in samples]
    lines: list[str] = []
    document: dict[str, Any] = {}
    p_values = []
    try:
        if requested.order_test:
            line, document["order_test"] = _test_order(requested, adapters, name, texts)
            lines.append(line)
            p_values.append(document["order_test"]["p"])
            if p_values[0] > requested.level:
                lines.append(NOT_THE_ORDER)
        if requested.min_k:
            line, document["min_k"] = _test_min_k(requested, adapters, name, texts)
            lines.append(line)
            p_values.append(document["min_k"]["p"])
    except (BackendError, NotEnoughData) as error:
        raise SpecError(f"adapter {requested.adapter!r}: {error}") from error
    finally:
        adapters.close()
    return lines, document, min(p_values) <= requested.level


def _test_order(
    requested: RequestedTests, adapters: Adapters, name: str, texts: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    backend = adapters.open_scorer(requested.adapter, "--order-test")
    test = asyncio.run(run_order_test(backend, texts, orders=requested.orders, seed=requested.seed))
    proven = test.p_value <= requested.level
    line = (
        f"order test of {requested.adapter}: the order of {name} is {'' if proven else 'not '}proven to be more probable than "
        f"{requested.orders} random orders ({p_equals(test.p_value)}; {test.gain:+.1f} nats, n = {len(texts):,}, "
        f"seed {requested.seed})"
    )
    document = {"adapter": requested.adapter, "p": test.p_value, "gain_nats": test.gain, "orders": requested.orders}
    return line, {**document, "samples": len(texts), "seed": requested.seed}


def _test_min_k(
    requested: RequestedTests, adapters: Adapters, name: str, texts: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    try:
        fresh, _ = load_dataset(requested.fresh, requested.fields)
    except DatasetError as error:
        raise DatasetError(f"--fresh {requested.fresh} cannot be read with the fields of {name}: {error}") from None
    candidate, base = (adapters.open_scorer(adapter, "--min-k") for adapter in (requested.adapter, requested.base))
    fresh_texts = [text_of(sample.input) for sample in fresh]
    test = asyncio.run(run_min_k_test(candidate, base, texts, fresh_texts))
    proven = test.p_value <= requested.level
    line = (
        f"min-20% of {requested.adapter} minus {requested.base}: {name} is {'' if proven else 'not '}proven to have gained "
        f"more than {requested.fresh} ({p_equals(test.p_value)}; AUROC {test.auroc:.3f}, n = {test.n[0]:,} and {test.n[1]:,})"
    )
    document = {"adapter": requested.adapter, "base": requested.base, "fresh": requested.fresh, "p": test.p_value}
    return line, {**document, "auroc": test.auroc, "n": test.n, "means": test.means}
