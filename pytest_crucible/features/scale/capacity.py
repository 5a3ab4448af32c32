"""The hours, bytes, cost and first bottleneck of a run of many samples, from rates that a benchmark measured."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from pytest_crucible.backends.spending import Price
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

STORES = ("sqlite", "postgresql", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A run to plan: its replies, the nodes that send their requests, and the limits of the servers."""

    samples: float
    arms: int = 2
    repeats: int = 1
    metrics: int = 1
    nodes: int = 1
    per_node: int = 1
    """Workers of a node."""
    concurrency: int = 64
    """Samples in flight in each worker."""
    latency_s: float = 1.0
    input_tokens: float = 500.0
    output_tokens: float = 200.0
    requests_per_second: float | None = None
    """The limit of all servers together; None: without a limit."""
    tokens_per_minute: float | None = None
    price: Price | None = None
    store: str = "sqlite"

    @property
    def replies(self) -> float:
        return self.samples * self.arms * self.repeats

    @property
    def tokens(self) -> float:
        """The tokens of a reply with its prompt."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Something that bounds how many replies arrive in a second."""

    name: str
    replies_per_second: float
    remedy: str
    """What makes it faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """The forecast for a workload. The first rate is the bottleneck."""

    workload: Workload
    rates: tuple[Rate, ...]
    """Slowest first."""
    hours: float
    analysis_s: float
    stored_bytes: float
    sent_bytes: float
    """What workers send to the driver."""
    cost_usd: float | None
    """None where the price is not known."""

    @property
    def bottleneck(self) -> Rate:
        return self.rates[0]


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a reply in seconds of one core and in bytes, as `python -m benchmarks.capacity` measured it."""

    worker_s: float
    """Of a worker: to send the request, score the reply and encode its rows."""
    driver_s: float
    """Of the driver: to decode the rows of a reply and hand them to the store."""
    wire_bytes: float
    """On the way from the worker to the driver, beside the text."""
    bytes_per_token: float
    """Of text, as it is stored."""
    store_rows_per_second: Mapping[str, float]
    """Observations and replies that each kind of store takes in a second."""
    row_bytes: Mapping[str, float]
    """Bytes of an observation or reply without its text, by kind of store."""
    analysis_rows_per_second: Mapping[str, float]


@cache
def measured_costs() -> Costs:
    """Return the shipped costs."""
    text = resources.files("pytest_crucible.features.scale").joinpath("capacity.toml").read_text(encoding="utf-8")
    return Costs(**tomllib.loads(text))


NETWORK_BYTES_PER_SECOND = 125e6
"""A gigabit a second to the driver, the slowest network that clusters commonly have."""


def plan_capacity(workload: Workload, costs: Costs) -> CapacityPlan:
    """Return the forecast. Raises SpecError for a workload without samples, workers or time."""
    _check(workload)
    rates = tuple(sorted(_rates(workload, costs), key=lambda rate: rate.replies_per_second))
    rows = workload.replies * (1 + workload.metrics)
    price = None if workload.price is None else workload.price.of(workload.input_tokens, workload.output_tokens)
    return CapacityPlan(
        workload=workload,
        rates=rates,
        hours=workload.replies / rates[0].replies_per_second / 3600,
        analysis_s=rows / costs.analysis_rows_per_second[workload.store],
        stored_bytes=rows * costs.row_bytes[workload.store] + workload.replies * _text_bytes(workload, costs),
        sent_bytes=workload.replies * _wire_bytes(workload, costs),
        cost_usd=None if price is None else price * workload.replies,
    )


def _check(workload: Workload) -> None:
    for name in ("samples", "arms", "repeats", "nodes", "per_node", "concurrency", "latency_s"):
        value = getattr(workload, name)
        if not 0 < value < float("inf"):
            raise SpecError(f"--{name.replace('_', '-').removesuffix('-s')} is {value:g}: expected a number above 0")
    if workload.store not in STORES:
        raise SpecError(f"--store is {workload.store!r}: expected one of {', '.join(STORES)}")


def _rates(workload: Workload, costs: Costs) -> Iterator[Rate]:
    workers = workload.nodes * workload.per_node
    yield Rate(
        name="concurrency",
        replies_per_second=workers * workload.concurrency / workload.latency_s,
        remedy="more nodes, or a larger concurrency where the servers allow it",
    )
    yield Rate(
        name="CPU of the workers",
        replies_per_second=workers / costs.worker_s,
        remedy="more workers a node (per_node), one for each core",
    )
    yield Rate(name="CPU of the driver", replies_per_second=1 / costs.driver_s, remedy=_OF_DRIVER[workload.store])
    yield Rate(
        name=f"store ({workload.store})",
        replies_per_second=costs.store_rows_per_second[workload.store] / (1 + workload.metrics),
        remedy=_OF_STORE[workload.store],
    )
    yield Rate(
        name="network of the driver",
        replies_per_second=NETWORK_BYTES_PER_SECOND / _wire_bytes(workload, costs),
        remedy=_OF_DRIVER[workload.store],
    )
    if workload.requests_per_second is not None:
        yield Rate(
            name="limit of requests",
            replies_per_second=workload.requests_per_second,
            remedy="a higher limit, or servers of your own",
        )
    if workload.tokens_per_minute is not None:
        yield Rate(
            name="limit of tokens",
            replies_per_second=workload.tokens_per_minute / 60 / workload.tokens,
            remedy="a higher limit, or shorter prompts",
        )


_OF_DRIVER = {
    **dict.fromkeys(("sqlite", "postgresql"), "crucible_results: workers then write Parquet parts themselves"),
    "parquet": "several runs side by side, each with a part of the samples: one driver is not divided",
}
_OF_STORE = {
    "sqlite": "PostgreSQL, or crucible_results for Parquet parts",
    "postgresql": "crucible_results for Parquet parts",
    "parquet": "more workers: each writes its own parts",
}


def _text_bytes(workload: Workload, costs: Costs) -> float:
    return workload.tokens * costs.bytes_per_token


def _wire_bytes(workload: Workload, costs: Costs) -> float:
    # Workers that write Parquet parts send the driver the numbers alone.
    text = 0.0 if workload.store == "parquet" else _text_bytes(workload, costs)
    return costs.wire_bytes * (1 + workload.metrics) + text
