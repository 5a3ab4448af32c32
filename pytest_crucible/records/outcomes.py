"""Units of work and their results: requests, replies, detections, calls, events, outcomes, observations and losses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.datasets import Sample
from pytest_crucible.records.measures import Value
from pytest_crucible.records.reasoning import answer_text


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that a detector found. Offsets are code points, as Python slices them."""

    type: str
    """Such as `EMAIL_ADDRESS`: presidio's names for personal data."""
    start: int
    end: int
    """The place after the last character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A guard's answer for one text."""

    flagged: bool
    score: float
    """Between 0 and 1; the guard flags a text from its threshold on."""
    category: str = ""
    """Such as `override` or `EMAIL_ADDRESS`: of the rule or the finding with the highest score; empty without one."""
    spans: tuple[Span, ...] = ()
    latency_s: float | None = field(default=None, compare=False)
    """Seconds that the guard took."""


class Unit(NamedTuple):
    """One piece of work: one sample, as one of its variants, in one arm, once. Every part counts from 0."""

    position: int
    """The sample's place in its dataset."""
    variant: int
    """0 is the original sample with the first form of the prompt; then come the other forms, and then its twins likewise."""
    arm: int
    """0 is the candidate; the baselines follow in the plan's order."""
    repeat: int
    """Counts over the rounds, and over the trainings of an arm that has several."""


OpenStream: TypeAlias = Callable[[], Callable[[str], None]]
"""Called for each attempt at a reply; returns the function that receives the attempt's text, piece by piece."""


@dataclass(slots=True)
class SentRequests:
    """Counts the requests of one call that were sent, over retries and hedges."""

    count: int = 0

    def add(self) -> int:
        """Count one more, and return its number, from 1."""
        self.count += 1
        return self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to one backend."""

    input: Any
    sample: str
    repeat: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    draw: int | str | None = None
    """The repeat in the reply cache's key, if that differs from the number above: `round 1, repeat 0`."""
    experiment: str = ""
    arm: str = ""
    """Events of a request carry its experiment and arm, so that two experiments never mix."""
    call: int = 1
    """Counts equal requests of the unit from 1: the same request sent twice is two draws."""
    member: str = ""
    """The member's adapter, for a request to a member of an ensemble."""
    unit_call: int = 0
    """Counts the calls of the unit from 1, as they are stored; 0 where they are not."""
    scored_arm: str = ""
    """The arm whose reply is scored, or checked, where `arm` is a judge."""
    sent: SentRequests = field(default_factory=SentRequests, compare=False, repr=False)
    """How often it was sent so far. Copies of a request share it, so that retries and hedges are counted together."""
    open_stream: OpenStream | None = field(default=None, compare=False, repr=False)
    """Set where the test reads the text as it comes. A backend that streams calls it, on the sampling loop. It has no plain form,
    and belongs to the call, not to what makes two requests equal."""


STOP = "stop"
"""The `finish` of a reply that ended by itself."""
BLOCKED = "blocked"
"""The `finish` of a reply that a guard has blocked: an answer of the arm, neither failed nor lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply, or any value that the test function returned (then `text` is its string)."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    """Those of `input_tokens` that the provider had in its prompt cache; None where it does not say."""
    latency_s: float | None = None
    """Seconds from sending the successful request to its reply, without rate limiting and failed attempts."""
    first_token_s: float | None = None
    finish: str = STOP
    """`length` when the answer was cut at max_tokens, `content_filter` when the provider withheld it: failures of the
    candidate, not of the world. `tool_calls` when it wants a tool. `abstained`, `tied` or `divided` when an ensemble has no
    answer: the text is then empty. `blocked` when a guard has put a stand-in in its place."""
    value: Any = None
    logprobs: tuple[float, ...] | None = None
    """Natural logarithms of the probabilities of the answer's tokens."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Reply, ...] = ()
    """The further choices, where more than one was asked for."""
    model: str = ""
    """The model's own name for itself."""
    system_fingerprint: str = ""
    """The server's name for the configuration behind the model, as OpenAI's endpoints give it."""
    server: str = ""
    """What the server says of itself in its headers, such as `server: uvicorn`."""
    cost_usd: float | None = None
    """None, not 0, where the price is not known."""
    cached: bool = False
    """Whether it comes from the reply cache. Tokens, latency and cost are those of the original request."""
    members: Mapping[str, Reply] = field(default_factory=dict)
    """Replies of the members of an ensemble. The `value` of each is its answer as it was counted, or None."""
    reasoning: str = ""
    """The model's reasoning, where the server sends it apart from the text. Metrics see the reasoning in the text here, too."""
    paid_by: str = ""
    """The run that paid for a cached reply; empty for this run, or where that is not known."""
    as_before: bool | None = None
    """Whether it is the cached reply that it replaces (--crucible-cache=refresh), at temperature 0 or with a seed; or None."""
    lost_members: Mapping[str, str] = field(default_factory=dict)
    """The members of an ensemble that gave no reply, and why."""
    consensus: float | None = None
    """The share of an ensemble's votes for its answer; None without a vote."""
    detection: Detection | None = None
    """A guard's judgement: of the guard that is the adapter, or of the guard around it that flags, or else scores, highest."""

    @property
    def answer(self) -> str:
        """The text without the model's reasoning, in any form of `records.reasoning_forms`."""
        return answer_text(self.text)


def confidence_of(reply: Reply) -> float | None:
    """Return the geometric mean of the token probabilities; None without log-probabilities.

    >>> confidence_of(Reply(text="yes", logprobs=(-0.25, -0.75)))
    0.6065306597126334
    """
    if not reply.logprobs:
        return None
    mean = sum(reply.logprobs) / len(reply.logprobs)
    # Servers round: a log-probability of 0 may arrive as 1e-7.
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))


Failure = Literal["assertion", "timeout", "truncated", "filtered"]
LostReason = Literal["error", "unanswered", "scorer", "member", "budget", "deadline", "uncached"]
# Reasons of units that a budget or deadline kept from running: a resumed run runs them.
CUT_SHORT = frozenset({"budget", "deadline"})


@dataclass(slots=True)
class ModelCall:
    """One call of `sampler.generate`, of another model in a role, or of a judge by a metric, recorded as it is sent."""

    text: str
    """The prompt; or, with `is_json`, the messages as canonical JSON, which a list that grows later cannot change."""
    is_json: bool
    request: int
    """Counts equal requests of the unit from 1."""
    parameters: Mapping[str, Any] | None
    """None if the call used the adapter's parameters."""
    system: str
    """The adapter's system prompt, which is sent before the messages; may be empty."""
    reply: Reply | None = None
    error: str = ""
    """The error, for a call without a reply."""
    judge: str = ""
    """`judge:NAME` for a request of a metric to the judge, `role:NAME` for one of the test to another model; else empty."""
    settings: str = ""
    """The parameters as canonical JSON; empty where they are None."""
    form_key: int | None = None
    """The key of the form of its messages, once that is known: it takes most of the time of storing a call."""


FeatureRows: TypeAlias = dict[str, list[Mapping[str, Any]]]
"""Rows of features' tables by the table's name, without the columns of the unit: arm, position and epoch."""


def copy_rows(rows: FeatureRows) -> FeatureRows:
    """Return the rows so far, to which nothing is added any more."""
    return {table: list(many) for table, many in rows.items()}


@dataclass(slots=True)
class Outcome:
    """The result of one unit. At most one of failure, skipped and lost is set."""

    unit: Unit
    reply: Reply | None = None
    scores: dict[str, Value | None] = field(default_factory=dict)
    failure: Failure | None = None
    skipped: bool = False
    lost: LostReason | None = None
    detail: str = ""
    started: float = 0.0
    calls: list[ModelCall] = field(default_factory=list)
    """Calls in the order in which they were sent: first the test's, then those of the judges in its metrics."""
    sample: Sample | None = None
    """The unit's sample. A large dataset builds a new object at each access, so that this one is passed along."""
    is_trial: bool = False
    """Whether it is a query before the unit's own reply, as of a search for a text: its calls are not stored."""
    feature_rows: FeatureRows = field(default_factory=dict)
    """What features record about the unit while it is sent and scored."""

    def detach(self) -> None:
        """Keep what was recorded so far: a thread that is left behind must not add scores, calls or rows."""
        self.scores, self.calls = dict(self.scores), list(self.calls)
        self.feature_rows = copy_rows(self.feature_rows)


# The reason of a metric that returned None without one.
UNEXPLAINED = "not applicable"


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric's value for one reply. None if the metric does not apply; `reason` then has the reason."""

    unit: Unit
    metric: str
    value: Value | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that is lost for reasons outside the model: not 0, and not inapplicable. Without a `metric`, the whole reply."""

    unit: Unit
    metric: str | None
    reason: LostReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreColumns:
    """All values of one metric in one arm, as parallel columns. A value of None does not apply."""

    positions: Sequence[int]
    repeats: Sequence[int]
    values: Sequence[float | None]
    is_bool: Sequence[int]
    """Whether each value is yes or no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOutcomes:
    """Everything that is stored about one arm, as parallel columns over its units that are not lost.

    A repeat here is a place in the arm's table of replies to a sample (`Draws`), which is more where there are factors.
    """

    positions: Sequence[int]
    repeats: Sequence[int]
    failures: Sequence[Failure | None]
    skipped: Sequence[bool]
    scores: Mapping[str, ScoreColumns]
    lost: Sequence[Lost]
    labels: frozenset[str] = frozenset()
    """Metrics whose values are text."""
    judge_texts: Mapping[str, Sequence[tuple[int, int, str]]] = field(default_factory=dict)
    """Position, repeat and text that LLM judges record beside their scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """Counts of the replies of one arm, and of its losses."""

    replies: int
    """Stored ones, those that failed included."""
    lost: Mapping[str, int]
    """By reason: whole replies, and scores."""
    lost_replies: int
    failures: Mapping[str, int]
    """By kind."""
    first: Mapping[str, str]
    """First line of the first message, by the metric that was lost, or else by the reason."""


Place = tuple[int, int]
"""Position and repeat of a reply."""
Columns = TypeVar("Columns", ArmOutcomes, ScoreColumns)


def move_units(answers: ArmOutcomes, place_of: Callable[[Place], Place | None]) -> ArmOutcomes:
    """Return the outcomes with each unit at its new place; units without one are left out. Texts of judges stay."""
    places = ((loss, place_of((loss.unit.position, loss.unit.repeat))) for loss in answers.lost)
    return replace(
        _move_rows(answers, place_of, ("failures", "skipped")),
        scores={name: _move_rows(column, place_of, ("values", "is_bool")) for name, column in answers.scores.items()},
        lost=[
            replace(loss, unit=loss.unit._replace(position=place[0], repeat=place[1]))
            for loss, place in places
            if place is not None
        ],
    )


def _move_rows(columns: Columns, place_of: Callable[[Place], Place | None], others: Sequence[str]) -> Columns:
    units = enumerate(zip(columns.positions, columns.repeats, strict=True))
    moved = [(row, place) for row, unit in units if (place := place_of(unit)) is not None]
    rest: dict[str, Any] = {name: [getattr(columns, name)[row] for row, _ in moved] for name in others}
    return replace(
        columns, positions=[place[0] for _, place in moved], repeats=[place[1] for _, place in moved], **rest
    )


def join_outcomes(parts: Sequence[ArmOutcomes]) -> ArmOutcomes:
    """Return outcomes of different units as those of one arm."""

    def join(records: Iterable[Any], names: str) -> dict[str, Any]:
        records = list(records)
        return {name: [value for record in records for value in getattr(record, name)] for name in names.split()}

    names = dict.fromkeys(name for part in parts for name in part.scores)
    by_metric = {name: [part.scores[name] for part in parts if name in part.scores] for name in names}
    judged = dict.fromkeys(name for part in parts for name in part.judge_texts)
    return ArmOutcomes(
        **join(parts, "positions repeats failures skipped lost"),
        scores={name: ScoreColumns(**join(of, "positions repeats values is_bool")) for name, of in by_metric.items()},
        labels=frozenset().union(*(part.labels for part in parts)),
        judge_texts={name: [text for part in parts for text in part.judge_texts.get(name, ())] for name in judged},
    )


def skip_units(answers: ArmOutcomes, units: Sequence[Place]) -> ArmOutcomes:
    """Return the outcomes with further units, which have no outcome, as skipped."""
    return replace(
        answers,
        positions=[*answers.positions, *(position for position, _ in units)],
        repeats=[*answers.repeats, *(repeat for _, repeat in units)],
        failures=[*answers.failures, *[None] * len(units)],
        skipped=[*answers.skipped, *[True] * len(units)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event, with its experiment, arm and sample; each is empty if the event belongs to none.

    Names are `request.stop`, `request.retry`, `limiter.wait`, `hedge.fired`, `hedge.won`, `cache.hit`, `vote`,
    `budget`, `checkpoint`, `train.step`, and where somebody listens `request.start`, `experiment.start`, `experiment.stop`,
    `sample.start` and `sample.stop`; what each has in `facts` is in docs/reference/events.md.
    """

    name: str
    at: float
    """Seconds since 1970, when it was over."""
    seconds: float | None = None
    """Its duration; None for events without one."""
    experiment: str = ""
    arm: str = ""
    sample: str = ""
    repeat: int = 0
    call: int = 0
    """Counts the calls of the reply from 1; 0 for an event of no call."""
    request: int = 0
    """Counts the requests of the call from 1, over retries and hedges, of each member apart; 0 for an event of none of them."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def about(
        cls,
        name: str,
        request: Request,
        *,
        number: int = 0,
        seconds: float | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Event:
        """Return an event of a call that happens now; `number` is that of its request."""
        all_facts = facts or {}
        if request.member:
            all_facts = {"member": request.member, **all_facts}
        if request.scored_arm:
            all_facts = {"scored_arm": request.scored_arm, **all_facts}
        return cls(
            name=name,
            at=time.time(),
            seconds=seconds,
            experiment=request.experiment,
            arm=request.arm,
            sample=request.sample,
            repeat=request.repeat,
            call=request.unit_call,
            request=number,
            facts=all_facts,
        )


# Emits an event. It is called on the sampling loop, and must be quick.
Emit = Callable[[Event], None]
