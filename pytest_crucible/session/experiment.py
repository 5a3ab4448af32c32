"""An experiment as it is planned, announced, run and estimated: what its markers declare, and what hooks of features change."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.variants import VariantNames, twin_sample
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Dataset,
    Draws,
    Exclusion,
    Lost,
    MetricFacts,
    Observation,
    Outcome,
    Plan,
    Reasoning,
    Sample,
    Twin,
    Unit,
    Variant,
)
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.records.settings import Settings
from pytest_crucible.sample.engine import Progress, Watch
from pytest_crucible.score import FurtherScores, Scored
from pytest_crucible.session.experiment_data import ExperimentData, ExperimentMetrics
from pytest_crucible.session.markers import sends_requests
from pytest_crucible.session.marks import ExperimentMark, comparisons, targets

if TYPE_CHECKING:
    from pytest_crucible.runs.looks import LookRule
    from pytest_crucible.sample.loop import BackgroundLoop
    from pytest_crucible.sample.sampler import InputEdit, Sampler
    from pytest_crucible.store.writer import Writer


# These arguments differ between the calls of one function, which fixtures cannot; all others are ordinary fixtures.
INJECTED = ("sample", "sampler", "score")


@dataclass(eq=False)
class BoundUnit:
    """A unit whose function is about to be called, as the arguments see it that are bound for it."""

    experiment: Experiment
    outcome: Outcome
    sample: Sample
    """What the unit sends, such as a twin."""
    loop: BackgroundLoop
    """The sampling loop."""
    open_sampler: Callable[[OpenedArm | None, str], Sampler]
    """Returns what sends requests of the unit: to its arm, or to that of another model in a role."""
    on_open: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Awaited before the function is called, which is not called for an outcome that one of them has lost."""
    on_enter: list[Callable[[], None]] = field(default_factory=list)
    """Called in the context of the function, before it."""
    blames_arm: Callable[[], bool] = lambda: False
    """Whether an exception of the function is a failure of the arm, and not of the suite or the world."""
    on_close: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Awaited on the sampling loop when the function has ended, however it ended. May change the outcome."""
    _sampler: Sampler | None = None

    @property
    def unit(self) -> Unit:
        return self.outcome.unit

    @property
    def sampler(self) -> Sampler:
        """Sends requests to the arm. All arguments share it, so that calls are numbered together."""
        # A cached property takes a lock.
        if self._sampler is None:
            self._sampler = self.open_sampler(None, "")
        return self._sampler

    async def open(self) -> bool:
        """Prepare what the function needs; return whether it can be called."""
        for prepare in self.on_open:
            await prepare()
        return self.outcome.lost is None

    async def close(self) -> None:
        """Close what was opened for the unit, the newest first."""
        if len(self.on_close) == 1:
            # Most units have their sampler alone, which needs no stack.
            await self.on_close[0]()
            return
        async with AsyncExitStack() as stack:
            for close in self.on_close:
                stack.push_async_callback(close)


class BoundArgument(Protocol):
    """Returns the value of an argument for a unit."""

    def __call__(self, bound: BoundUnit) -> Any: ...


class OnScored(Protocol):
    """Ends what a unit's metrics still needed."""

    async def __call__(self, unit: Unit, outcome: Outcome | None, scored: Scored | None) -> None:
        """`outcome` is None for a unit that raised, `scored` also for one that was cut short."""


class ArmFunction(Protocol):
    """A function that an arm has in place of the experiment's, such as that of another commit."""

    @property
    def takes(self) -> Collection[str]:
        """The names of its arguments."""

    async def __call__(self, **arguments: Any) -> Any:
        """Return what the function returns. Raises what it raises."""


class FunctionCall(Protocol):
    """A call of an experiment's function for a unit."""

    @property
    def experiment(self) -> Experiment: ...

    async def run(
        self, outcome: Outcome, sample: Sample | None = None, draw: str = "", edit: InputEdit | None = None
    ) -> Outcome:
        """Call the function, or with another `sample`, whose requests are a `draw` of their own, or with edited inputs."""


class LateVariant(Protocol):
    """Makes the twins of a variant while an experiment runs, because their texts depend on replies of a model."""

    @property
    def requests(self) -> int:
        """The largest number of requests that the test function sent for one unit."""

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        """Complete the outcome of a unit: make its text, and run the test function on it. Raises what requests raise."""


class CrucibleWarning(pytest.PytestWarning):
    """A suspicious but valid part of a suite, such as recorded replies to unknown samples."""


@dataclass(frozen=True)
class Experiment:
    """A marked function with its plan, its samples and its opened arms."""

    function: Callable[..., Any]
    plan: Plan
    dataset: Dataset
    metrics: tuple[Metric, ...]
    opened_arms: tuple[OpenedArm, ...]
    timeout_s: float | None
    is_async: bool
    warnings: tuple[str, ...]
    reasoning: Reasoning = "strip"
    """The setting `crucible_reasoning`."""
    variants: tuple[Variant, ...] = ()
    """Named variants of the samples, in the order of the plan."""
    variant_metrics: tuple[Metric, ...] = ()
    """Metrics that are applied only to replies to twins."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Variants whose texts are made while the experiment runs, by the number of their twins."""
    arguments: Mapping[str, BoundArgument] = field(default_factory=dict)
    """Further arguments of the function, by name."""
    further_scores: tuple[FurtherScores, ...] = ()
    """Functions that score more of a reply than its metrics do."""
    on_scored: tuple[OnScored, ...] = ()
    """Awaited for each unit when it is scored, or was cut short."""
    functions: Mapping[int, ArmFunction] = field(default_factory=dict)
    """The functions of arms that have one of their own, by the number of the arm."""

    @cached_property
    def draws(self) -> tuple[Draws, ...]:
        """The table of replies that each sample has, by arm."""
        return tuple(self.plan.draws(number) for number in range(len(self.plan.arms)))

    def repeat(self, unit: Unit) -> int:
        """Return the number of a unit's reply, counted over all factors of its arm and sample."""
        return self.draws[unit.arm].place(unit.variant, unit.repeat)

    def twin(self, unit: Unit) -> int:
        """Return the number of a unit's twin; 0 is the original sample."""
        return self.draws[unit.arm].twin(unit.variant) if unit.variant else 0

    def sample(self, unit: Unit) -> Sample:
        """Return the sample that a unit sends: the original, or its twin."""
        sample, number = self.dataset.samples[unit.position], self.twin(unit)
        twin = self.variants[number - 1].twin(sample.id) if number else None
        return twin_sample(sample, twin) if isinstance(twin, Twin) else sample

    @cached_property
    def twins(self) -> tuple[frozenset[int], ...]:
        """The positions of the samples that each variant applies to."""
        samples = self.dataset.samples
        return tuple(
            frozenset(position for position, sample in enumerate(samples) if isinstance(variant.twin(sample.id), Twin))
            for variant in self.variants
        )

    def position(self, sample_id: str) -> int | None:
        """Return the position of a sample in the dataset; None for an unknown id."""
        samples = enumerate(self.dataset.samples)
        return next((position for position, sample in samples if sample.id == sample_id), None)

    def metrics_of(self, unit: Unit) -> tuple[Metric, ...]:
        """Return the metrics that score the reply of a unit."""
        return (*self.metrics, *self.variant_metrics) if self.twin(unit) else self.metrics

    @property
    def sends_requests(self) -> bool:
        """True if its function may send requests to its arms."""
        return sends_requests(self.injected)

    @property
    def injected(self) -> frozenset[str]:
        """The function's arguments that differ between calls."""
        return self.injected_into(inspect.signature(self.function).parameters)

    def injected_into(self, takes: Collection[str]) -> frozenset[str]:
        """Return those of a function's arguments that differ between calls."""
        return frozenset((*INJECTED, *self.arguments)) & frozenset(takes)

    def fixture_values(self, item: pytest.Function, takes: Collection[str]) -> dict[str, Any]:
        """Return the fixtures that a function takes, without the arguments that differ between calls."""
        injected = self.injected_into(takes)
        return {name: item.funcargs[name] for name in takes if name in item.funcargs and name not in injected}

    def bind_function(self, item: pytest.Function) -> Callable[..., Any]:
        """Return the function, bound to its instance if it is a method."""
        method = item.instance is not None and "self" in inspect.signature(self.function).parameters
        return self.function.__get__(item.instance) if method else self.function


@dataclass(kw_only=True)
class ExperimentDraft:
    """Markers, arguments and samples of a marked item, and what the hook `pytest_crucible_plan` adds to them."""

    config: pytest.Config
    settings: Settings
    item: pytest.Function
    function: Callable[..., Any]
    mark: ExperimentMark
    takes: Collection[str]
    """The arguments of the function."""
    arms: tuple[OpenedArm, ...]
    data: ExperimentData
    scored: ExperimentMetrics
    own_variants: tuple[Variant, ...]
    """Variants that the samples have themselves."""
    timeout_s: float | None

    variants: list[Variant] = field(default_factory=list)
    """Further variants. Twins are numbered from 1, and those of the samples come first."""
    names: VariantNames = field(default_factory=VariantNames)
    """The names that terms of targets may use."""
    variant_metrics: tuple[Metric, ...] = ()
    """Metrics that are applied only to replies to twins."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Variants whose texts are made while the experiment runs, by the number of their twins."""
    arguments: dict[str, BoundArgument] = field(default_factory=dict)
    """Further arguments of the function, by name."""
    facts: list[MetricFacts] = field(default_factory=list)
    """Further numbers that a reply has."""
    further_scores: list[FurtherScores] = field(default_factory=list)
    """Functions that score more of a reply than its metrics do."""
    on_scored: list[OnScored] = field(default_factory=list)
    """Awaited for each unit when it is scored, or was cut short."""
    functions: dict[int, ArmFunction] = field(default_factory=dict)
    """The functions of arms that have one of their own, by the number of the arm."""
    exclusions: list[Exclusion] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)
    """Further settings that replies depend on, as plain values: stored replies of others are not used."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the plan."""

    @property
    def sends_requests(self) -> bool:
        """True if the function may send requests to its arms."""
        return sends_requests(self.takes)

    @property
    def samples(self) -> Sequence[Sample]:
        return self.data.dataset.samples

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        return (*self.own_variants, *self.variants)

    @property
    def judged(self) -> list[str]:
        """The metrics that targets and comparisons name."""
        return [name for measure in (*targets(self.item), *comparisons(self.item)) for name in measure.metrics]

    def add_variant(self, variant: Variant) -> None:
        """Send the samples in a further variant, which targets name in brackets."""
        self.variants.append(variant)
        self.names = replace(self.names, variants=(*self.names.variants, variant.name))

    def plan_value(self, name: PlanValue[Any], value: Any) -> None:
        """Keep a value of a feature in the plan; its default is not stored."""
        self.data.plan_value(name, value)


class StoredResult(NamedTuple):
    """The outcome of a unit that another process has sent, with its scores, as far as rows of the store have them."""

    outcome: Outcome
    observations: Sequence[Observation]
    lost: Sequence[Lost]
    calls: Sequence[Mapping[str, Any]]
    """Rows of the table `calls`, in their order."""


@dataclass(frozen=True)
class SentRound:
    """The units of one round of an experiment, which are sent elsewhere, and what is done with their results."""

    units: Iterator[Unit]
    """Results may add further units until the last one is pulled."""
    number: int
    """The round, from 0."""
    experiment: Experiment
    key: int
    """The store's key of the experiment."""
    arms: Sequence[Sequence[int]]
    """The store's keys of the arms, by arm and variant."""
    watch: Watch
    progress: Progress
    writer: Writer
    keep: Callable[[StoredResult], None]
    """Uses a result, whose rows the writer gets apart."""


class UnitSender(Protocol):
    """Sends the units of experiments elsewhere, in place of this process's engine."""

    async def send(self, sent: SentRound) -> None:
        """Send all units, and store and keep each result as it comes. Raises AllLost, and what keeping raises."""


Show = Callable[[Progress | None], None]
"""Shows the progress; None when it ends."""


@dataclass
class ExperimentRun:
    """The requests of an experiment, their order and their end. The hook `pytest_crucible_run` may change all of it."""

    item: pytest.Function
    experiment: Experiment
    positions: Sequence[int] | None = None
    """The samples that are sent, in this order; None for all of them, in the order of the plan."""
    units: Sequence[Unit] | None = None
    """The units that are sent, in this order; None for all of those of the samples."""
    rule: LookRule | None = None
    """The rule of looks; None for a run that does not look before its end."""
    is_first: bool = True
    """Whether the experiment begins with this run, and is entered into the store."""
    is_last: bool = True
    """Whether the experiment is finished after this run."""
    answered: int = 0
    """The number of arms, from the first, that have had their requests in this session: trials of a search before the next."""
    is_over: Callable[[], bool] | None = None
    """Asked before each unit: whether to send no further unit."""
    sender: UnitSender | None = None
    """Sends the units; None to send them from this process."""
    show: Show = lambda progress: None
    before: list[Callable[[ExperimentRun], None]] = field(default_factory=list)
    """Called before anything is sent, while signals are deferred; may replace the experiment."""
    on_tick: list[Callable[[], None]] = field(default_factory=list)
    """Called by the main thread several times a second."""
    after: list[Callable[[], None]] = field(default_factory=list)
    """Called when all units are done."""

    def until_over(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """Yield the units until the run is over."""
        is_over = self.is_over
        if is_over is None:
            yield from units
            return
        for unit in units:
            if is_over():
                return
            yield unit


@dataclass
class Announcement:
    """The facts behind the announcements of a session's plans. The hook `pytest_crucible_announce` may change it."""

    plans: Sequence[Plan]
    settings: Settings
    alpha: float
    """The error rate of all claims at the end of the run."""
    claims: int
    """The number of claims that share it."""
    lines: dict[str, list[tuple[int, str]]]
    """Further lines by nodeid, each with its place among those of other features."""


@dataclass(frozen=True)
class HelperEstimate:
    """An experiment that serves another one, and is sent before it."""

    experiment: Experiment
    family: str = ""
    """The name of the arms that are not known yet."""
    further: int = 0
    """The number of these arms."""
    least_share: float = 1.0
    """The share of the samples after which the scores may end it."""
    unsent: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The positions of samples that an arm is not sent, by its name."""


@dataclass
class ExperimentEstimate:
    """One experiment that is estimated; `pytest_crucible_estimate` may change it."""

    item: pytest.Function
    experiment: Experiment
    helpers: list[HelperEstimate] = field(default_factory=list)


@dataclass
class SessionEstimate:
    """The whole estimate; `pytest_crucible_estimate_session` may change it."""

    arms: tuple[OpenedArm, ...]
    """The arms that may have to be prepared."""
    settings: Settings
    forecast_seconds: Callable[[Sequence[float], int], str]
    """Returns the sum of so many further durations, drawn as the earlier ones, as text; `unknown` from fewer than two."""
    further: int = 0
    """The number of further arms like the first, which are not known yet."""
    lines: list[str] = field(default_factory=list)
    """Lines below the estimates."""
