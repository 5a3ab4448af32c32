"""The plan of an experiment, and the table of replies that its factors span."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pytest_crucible.features import load_rows
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.arms import Arm
from pytest_crucible.records.datasets import Origin, PlannedVariant, Selection
from pytest_crucible.records.measures import Contrast, MetricFacts, Purpose, Target, VariantTerm
from pytest_crucible.records.outcomes import ArmOutcomes
from pytest_crucible.records.serialize import FLAT, FORMER_NAME, build_value, to_plain

IMPORTED = "imported::"
"""The beginning of the nodeid of an experiment of another harness."""
FACTORS = ("prompts", "trainings", "rounds")
"""A factor is random (claims are about levels like these) or declared fixed (claims are about these levels alone)."""
FEWEST_LEVELS = 3
"""Levels that a random factor needs for a verdict."""


class Draws(NamedTuple):
    """The replies of one arm to one sample, as a table. A unit's variant is its prompt; its repeat counts the rest.

    Twins of the sample have tables of their own, which follow: with two prompts, the variants 2 and 3 are the first twin.
    """

    prompts: int = 1
    trainings: int = 1
    rounds: int = 1
    repeats: int = 1
    """Replies within one round."""

    @property
    def size(self) -> int:
        return math.prod(self)

    def place(self, variant: int, repeat: int) -> int:
        """Return the place of one reply in the table, counted from 0.

        >>> Draws(prompts=3, trainings=2, rounds=2, repeats=5).place(variant=2, repeat=19)
        59
        """
        # Most units are of the only prompt, and multiplying the sizes takes longer than all else here.
        return variant * self.size // self.prompts + repeat if variant else repeat

    def twin(self, variant: int) -> int:
        """Return the number of a variant's twin; 0 is the original sample."""
        return variant // self.prompts

    def twin_at(self, place: int) -> int:
        """Return the number of the twin that the reply at a place is to; 0 is the original sample."""
        return place // self.size

    def levels(self, place: int) -> Draws:
        """Return the level of each factor of the reply at a place, counted from 0.

        >>> Draws(prompts=3, trainings=2, rounds=2, repeats=5).levels(59)
        Draws(prompts=2, trainings=1, rounds=1, repeats=4)
        """
        levels = []
        for size in reversed(self):
            place, level = divmod(place, size)
            levels.append(level)
        return Draws(*reversed(levels))

    def repeats_of_round(self, number: int) -> list[int]:
        """Return the repeats of a round, those of each training side by side.

        >>> Draws(trainings=2, rounds=3, repeats=2).repeats_of_round(1)
        [2, 8, 3, 9]
        """
        return [
            (training * self.rounds + number) * self.repeats + repeat
            for repeat in range(self.repeats)
            for training in range(self.trainings)
        ]

    def training(self, repeat: int) -> int:
        """Return which of the arm's trainings answers in a repeat."""
        return repeat // (self.rounds * self.repeats)

    def cache_name(self, repeat: int) -> int | str:
        """Return the repeat in the reply cache's keys: equal in every design, and different for each round.

        >>> Draws(rounds=2, repeats=3).cache_name(2), Draws(rounds=2, repeats=3).cache_name(4)
        (2, 'round 1, repeat 1')
        """
        of_round, number = divmod(repeat % (self.rounds * self.repeats), self.repeats)
        return f"round {of_round}, repeat {number}" if of_round else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Hashes that must be equal before stored replies may replace new ones, part by part, so that a difference has a name."""

    dataset: str
    function: str
    metrics: str
    sampling: str
    reasoning: str = ""
    """The setting `crucible_reasoning`; empty if no metric is applied, and in runs from before there was one."""
    other_metrics: str = ""
    """The hash of the metrics without those of calls, which score stored replies too; empty where there are none of calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """One form of the prompt: a file, by the name that the marker gives it."""

    name: str
    sha256: str
    """The hash of its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Samples that no verdict may depend on, with the reason: each verdict is decided again without them."""

    reason: str
    """What the samples did, as it reads after "the 69 that": `match train.jsonl`."""
    sample_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One experiment before it runs: nothing in it depends on a reply."""

    nodeid: str
    path: str
    line: int
    dataset: str
    dataset_sha256: str
    planned: int
    selected: int
    """Below `planned` when -k, -m or --lf removed samples: then no verdict can be given."""
    groups: int | None
    """Number of clusters, or None when no sample carries a group."""
    repeats: int = field(metadata={FORMER_NAME: "epochs"})
    """Replies of one model to one sample in one form of the prompt, over all rounds."""
    arms: tuple[Arm, ...]
    metrics: tuple[MetricFacts, ...]
    targets: tuple[Target, ...]
    contrasts: tuple[Contrast, ...]
    fingerprint: Fingerprint
    open_metrics: bool
    """True when the test function scores by itself, so that metric names are known only after the run."""
    origin: Origin | None = None
    """The origin of a named dataset."""
    selection: Selection | None = None
    by_item: bool = False
    """True for an ordinary parametrised test that joined: each of its items is a sample."""
    rounds: int = 1
    """Whole repetitions, one after the other: repeat k belongs to round k // (repeats / rounds)."""
    prompts: tuple[PromptForm, ...] = ()
    """Forms of the prompt: every sample is sent with each of them; empty if the test has its own prompt."""
    arm_prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the text of the variable `prompt` by arm, or by member of a family; empty if the adapters have none."""
    variants: tuple[PlannedVariant, ...] = ()
    """Named variants of the samples: each is sent in addition to the original samples."""
    variant_terms: tuple[VariantTerm, ...] = ()
    """What targets and comparisons use of the variants."""
    variant_metrics: tuple[MetricFacts, ...] = ()
    """Metrics that only variants have."""
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Terms on variants that are not run, with the reason why their verdicts are undecided."""
    fixed: tuple[str, ...] = ()
    """Factors whose levels claims are about; the others are random."""

    purpose: Purpose = "gate"

    look_alpha: float | None = None
    """The error rate of each claim where the run may stop at any look (--crucible-stop); None for one without looks."""

    chosen_among: int = 1
    """The number of members that the candidate was chosen among on these same samples: claims hold for all of them at once."""
    chooses: bool = False
    """True for an experiment that only chooses a candidate among its arms for another one, and gives no verdict."""

    arms_differ_in: tuple[str, ...] = ()
    """Parameters that the test may pass differently to the arms, by declaration; `*` for whatever it sends."""

    exclusions: tuple[Exclusion, ...] = ()
    """Samples without which each verdict is decided again."""

    features: Mapping[str, Any] = field(default_factory=dict, metadata={FLAT: True})
    """What features have planned, as plain data by name. A feature reads its own by a `PlanValue`."""

    @property
    def is_imported(self) -> bool:
        """Return whether its replies are those of another harness, so that no setting of its arms was declared here."""
        return self.nodeid.startswith(IMPORTED)

    @property
    def candidate(self) -> Arm:
        return self.arms[0]

    @property
    def withheld(self) -> str:
        """The reason why nothing is sent, such as a failed check; empty if the experiment may be sent."""
        return next(filter(None, (reason(self) for _, reason in load_rows("withheld"))), "")

    @property
    def random_factors(self) -> tuple[str, ...]:
        """Factors with several levels whose noise every interval counts."""
        tables = [self.draws(number) for number in range(len(self.arms))]
        return tuple(
            name for name in FACTORS if name not in self.fixed and any(getattr(table, name) > 1 for table in tables)
        )

    def draws(self, arm: int) -> Draws:
        """Return the table of replies that each sample has in an arm."""
        return Draws(
            prompts=max(len(self.prompts), 1),
            trainings=max(len(self.arms[arm].trainings), 1),
            rounds=self.rounds,
            repeats=self.repeats // self.rounds,
        )

    @property
    def facts(self) -> Mapping[str, MetricFacts]:
        """The facts of each metric, and of each term that names a variant, by name."""
        return {facts.name: facts for facts in (*self.metrics, *(term.facts for term in self.variant_terms))}

    def may_have(self, *metrics: str) -> bool:
        """Return whether any of these metrics may be scored: a test function that scores by itself may score all."""
        return self.open_metrics or any(facts.name in metrics for facts in self.metrics)

    @property
    def variant_numbers(self) -> range:
        """The numbers of all variants: the prompt forms of the original samples, and those of their twins."""
        return range(max(len(self.prompts), 1) * (1 + len(self.variants)))

    def count_replies(self, arm: int) -> int:
        """Return the number of replies that an arm is planned to give, variants included."""
        return self.draws(arm).size * (self.selected + sum(variant.samples for variant in self.variants))

    def count_new_replies(self) -> int:
        """Return the number of replies that all arms but stored runs are planned to give."""
        return sum(self.count_replies(number) for number, arm in enumerate(self.arms) if arm.stored_run is None)

    @property
    def judge_requests(self) -> int:
        """Requests to the judge that the metrics of a reply take, without repeated ones."""
        return sum(facts.judge_requests for facts in self.metrics)

    def variant_name(self, twin: int) -> str:
        """Return the name of a variant by the number of its twins; empty for 0, the original samples."""
        return self.variants[twin - 1].name if twin else ""

    def draw_text(self, arm: int, place: int) -> str:
        """Name an arm's reply to a sample by its place, such as `terse.txt, round 2`; empty if there is one reply."""
        table = self.draws(arm)
        levels = table.levels(place)
        words = [self.variant_name(table.twin_at(place))] if place >= table.size else []
        words += [self.prompts[levels.prompts].name] if self.prompts else []
        words += [
            f"{name.removesuffix('s')} {getattr(levels, name) + 1}"
            for name in ("trainings", "rounds", "repeats")
            if getattr(table, name) > 1
        ]
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """The smallest difference that a comparison can show, under a stated assumption on how much the arms differ."""

    contrast: Contrast
    detectable: float | None = None
    unit: str = ""
    """`points` for shares, `ratio` for the logarithm of a ratio, and empty for scores of a known range."""
    assumption: str = ""
    needed: int | None = None
    """Samples that the declared margin needs, when the arms are truly equal; or that resolve the relevant difference."""
    detectable_falls: float | None = None
    """The smallest loss of scores that it can show where replies fall from the best value to the worst."""
    units: int = 0
    """Samples, or groups, that the comparison has."""
    unprovable: str = ""
    """The reason why no number of samples proves anything, and what to do; empty if some number does."""


Value = TypeVar("Value")


@dataclass(frozen=True)
class PlanValue(Generic[Value]):
    """A value that a feature keeps in plans, under its name.

    >>> BEGINS = PlanValue[int]("begins", int, 0)
    """

    name: str
    kind: Any
    """Its type, such as `tuple[Stage, ...]`."""
    default: Value
    """The value of a plan that has none."""

    def of(self, plan: Plan) -> Value:
        """Return the value in a plan."""
        plain = plan.features.get(self.name)
        return self.default if plain is None else cast(Value, build_value(self.kind, plain))

    def on(self, plan: Plan, value: Value) -> Plan:
        """Return the plan with this value; the default is not stored."""
        others = {name: plain for name, plain in plan.features.items() if name != self.name}
        added = {} if value == self.default else {self.name: to_plain(value)}
        return replace(plan, features={**others, **added})


BEGINS_LATE = PlanValue[str]("begins_late", str, "")
"""The name of the stage at which an experiment begins, if that is not the first."""
LEFT_OUT = PlanValue[Mapping[str, tuple[str, ...]]]("left_out", Mapping[str, tuple[str, ...]], {})
"""Why -> the samples that cannot be compared, by id: `other input`, or `only in ARM`."""
ANSWERED_BY = PlanValue[str]("answered_by", str, "")
"""The helper experiment of the run in which the candidate has answered these same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualInputs:
    """The samples of a plan that ask the same question as others, which are one group."""

    samples: int
    questions: int
    """How many questions these samples ask."""
    declared: int = 0
    """The number of groups that the samples declare; 0 without any."""


EQUAL_INPUTS = PlanValue[EqualInputs | None]("equal_inputs", EqualInputs, None)
"""What equal inputs have grouped (`crucible_equal_inputs`); None if nothing."""


CHOOSING = " (choosing "
"""What the name of a helper that chooses has between its test and the family that it chooses from."""


def choosing_nodeid(test: str, family: str) -> str:
    """Return the name under which the run store has the replies of a test's choosing half."""
    return f"{test}{CHOOSING}{family})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperReplies:
    """The stored replies of a helper experiment."""

    plan: Plan
    answers: tuple[ArmOutcomes, ...]
    groups: Sequence[str | None]
    sample_ids: Sequence[str]
    known_kinds: Mapping[str, str]
