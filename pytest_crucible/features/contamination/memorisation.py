"""Tests of whether a model has memorised a dataset, by the log-probabilities of its texts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.adapters.config import read_adapters, resolve_name
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import Pending
from pytest_crucible.adapters.kinds import locate_adapter
from pytest_crucible.adapters.open_backend import open_backend
from pytest_crucible.adapters.opened_arm import describe_arm
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.commands.options import load_dataset
from pytest_crucible.commands.tinker import project_services
from pytest_crucible.datasets.packed import text_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Sample
from pytest_crucible.records.errors import BackendError, DatasetError, SpecError
from pytest_crucible.records.object_reference import import_from_here
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import DEFAULT_ALPHA, Settings
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.data_drift import MinKTest, OrderTest, compare_min_k, lowest_mean, order_test
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_equals
from pytest_crucible.store.runs import RunStore

SEPARATOR = "\n\n"

# The smallest p of 99 orders is 0.01.
ORDERS = 99

# Samples that are scored together; half as many where they do not fit into the model's context.
_SHARD = 16


async def run_order_test(
    backend: ScoresPrompts, texts: Sequence[str], *, orders: int = ORDERS, seed: int = 0
) -> OrderTest:
    """Return whether the order of the texts is more probable than random orders. Raises SpecError if no two fit together.

    The texts are divided into shards that fit into the model's context, and each shard is shuffled by itself. The statistic is the
    sum of the log-probabilities of all shards: under the null hypothesis every order of every shard is equally probable, so that
    the p-value is exact.
    """
    shards = await _find_shards(backend, texts)
    generator = np.random.default_rng(seed)
    own, others = await _score_all(backend, shards), []
    for _ in range(orders):
        shuffled = [[shard[k] for k in generator.permutation(len(shard))] for shard in shards]
        others.append(await _score_all(backend, shuffled))
    return order_test(own, others)


async def run_min_k_test(
    candidate: ScoresPrompts, base: ScoresPrompts, texts: Sequence[str], fresh: Sequence[str]
) -> MinKTest:
    """Return whether the texts have become more probable from base to candidate than fresh ones have."""
    return compare_min_k(await _gains(candidate, base, texts), await _gains(candidate, base, fresh))


async def _gains(candidate: ScoresPrompts, base: ScoresPrompts, texts: Sequence[str]) -> list[float]:
    gains = []
    for text in texts:
        try:
            gains.append(lowest_mean(await candidate.score_prompt(text)) - lowest_mean(await base.score_prompt(text)))
        # A text of one token, which has nothing before it.
        except NotEnoughData:
            continue
    return gains


async def _find_shards(backend: ScoresPrompts, texts: Sequence[str]) -> list[list[str]]:
    size = min(_SHARD, len(texts))
    while size >= 2:
        shards = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        # The last one may be of one text, which has one order.
        shards = [shard for shard in shards if len(shard) > 1]
        try:
            # The longest text decides whether all fit.
            for shard in sorted(shards, key=lambda shard: -sum(map(len, shard)))[:3]:
                await backend.score_prompt(SEPARATOR.join(shard))
        except BackendError as error:
            if size == 2:
                raise SpecError(f"no two samples can be scored together: {error}") from error
            size //= 2
            continue
        return shards
    raise SpecError("an order needs at least two samples: choose a larger dataset")


async def _score_all(backend: ScoresPrompts, shards: Sequence[Sequence[str]]) -> float:
    total = 0.0
    for shard in shards:
        total += float(np.sum(await backend.score_prompt(SEPARATOR.join(shard))))
    return total


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
    texts = [text_of(sample.input) for sample in samples]
    lines: list[str] = []
    document: dict[str, Any] = {}
    with closing(Adapters(Path.cwd(), requested.store)) as adapters:
        try:
            if requested.order_test:
                line, document["order_test"] = _test_order(requested, adapters, name, texts)
                lines += [line] if document["order_test"]["p"] <= requested.level else [line, NOT_THE_ORDER]
            if requested.min_k:
                line, document["min_k"] = _test_min_k(requested, adapters, name, texts)
                lines.append(line)
        except (BackendError, NotEnoughData) as error:
            raise SpecError(f"adapter {requested.adapter!r}: {error}") from error
    return lines, document, any(test["p"] <= requested.level for test in document.values())


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


class Adapters:
    """Opens adapters of this directory's configuration, and closes what they have started."""

    def __init__(self, root: Path, store: str) -> None:
        """`store` has the registered versions."""
        # Recipes and scripts lie here, beside the tests.
        import_from_here()
        self._root, self._store = root, store
        self._configured = read_adapters(root)
        self._opened = ExitStack()

    def open_scorer(self, name: str, option: str) -> ScoresPrompts:
        """Return the backend of an adapter, or of a registered version. Raises SpecError for one that cannot score prompts."""
        context = self._context()
        named = resolve_name(name, self._configured, context)
        adapter, typed_in = named.adapter, Path.cwd() if named.is_uri else None
        backend: Any = None if named.maker is not None else self._open(adapter, typed_in)
        if isinstance(backend, Pending):
            raise SpecError("\n".join(backend.preparation.explain_missing([backend])))
        if not isinstance(backend, ScoresPrompts):
            raise SpecError(
                f"{option}: adapter {name!r} ({adapter.backend}) cannot score prompts; use a backend with prompt logprobs"
            )
        # An identity with settings of features, such as guards, names these too, and they do not take part here.
        if named.identity and not adapter.settings:
            opened: Any = backend
            arm = describe_arm(adapter, "candidate", opened, root=self._root, trained_on={})
            if arm.identity != named.identity:
                raise SpecError(named.changed)
        return backend

    def close(self) -> None:
        """Close the run store and stop services, where they were opened."""
        self._opened.close()

    def _open(self, adapter: Adapter, typed_in: Path | None) -> Backend:
        context = self._context()
        return open_backend(locate_adapter(adapter, context, self._configured, typed_in), context)

    def _context(self) -> AdapterContext:
        return AdapterContext(
            root=self._root,
            invocation_folder=Path.cwd(),
            settings=_default_settings(self._store),
            shared=BackendContext(),
            open_user_backend=lambda adapter: None,
            tinker=self._tinker,
            store=self._open_store,
        )

    def _open_store(self) -> RunStore:
        return self._opened.enter_context(existing_store(self._store))

    def _tinker(self) -> Any:
        secrets = secrets_in(to_plain(list(self._configured.values())), os.environ)
        services = project_services(self._root, secrets=secrets)
        self._opened.callback(services.close)
        return services


def _default_settings(store: str) -> Settings:
    # Imports pytest, which the program's other commands do without.
    from pytest_crucible.options import OPTIONS

    defaults: dict[str, Any] = {option.name: () if option.repeats else option.default for option in OPTIONS}
    return Settings(**{**defaults, "store": store})
