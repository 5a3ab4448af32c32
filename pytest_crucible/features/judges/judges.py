"""Metrics by an LLM judge, the model of `[scorers]`: by a rubric of named levels, or by preference over another answer.

helpful = judges.rubric("helpful", "How helpful is the answer?", levels={"useless": 0, "fair": 0.5, "good": 1})
better = judges.pairwise("better", "Which answer is more helpful?")

@pytest.mark.crucible(dataset="questions.jsonl", metrics=[helpful, better])
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pytest_crucible.datasets.labels import Label, ReplyKey, hash_reply, read_labels, split_person
from pytest_crucible.metrics.definition import Metric, NotApplicable, declared_facts, metric
from pytest_crucible.metrics.models.scorers import (
    DATA,
    NO_JUDGE,
    NoVerdict,
    closing_lines,
    current_reply,
    judge,
    wrap_in_tags,
)
from pytest_crucible.metrics.models.votes import (
    Combine,
    Votes,
    check_votes,
    combined_value,
    leading_verdicts,
    request_votes,
)
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import CLEAN, HUMAN, ORDERS, VOTES, MetricFacts, Reply, Sample
from pytest_crucible.records.errors import BackendError, SpecError

VERSION = "2"
NO_JUDGE_CONFIGURED = NotApplicable(NO_JUDGE)
Verdict = TypeVar("Verdict")
AskJudge = Callable[[Reply, Sample], Coroutine[Any, Any, Verdict]]


def judge_version(*question_parts: Any) -> Callable[[], str]:
    """Return a function for `depends`: the version by the question and the judge."""

    def version() -> str:
        configured = judge()
        words = hashlib.sha256(json.dumps(question_parts, sort_keys=True).encode()).hexdigest()[:16]
        return f"{VERSION}:{words}:{configured.identity if configured else 'no judge'}"

    return version


def judge_once(ask: AskJudge[Verdict]) -> AskJudge[Verdict]:
    """Return `ask` with a memory of a task's last reply, because a metric and its side values need one request."""
    last_call: ContextVar[tuple[Reply, Sample, asyncio.Task[Verdict]] | None]
    last_call = ContextVar("crucible_last_verdict", default=None)

    async def cached_ask(reply: Reply, sample: Sample) -> Verdict:
        latest = last_call.get()
        if latest is None or latest[0] is not reply or latest[1] is not sample:
            # A task, not a result: the metric and its side value await the same request.
            latest = (reply, sample, asyncio.ensure_future(ask(reply, sample)))
            last_call.set(latest)
        return await latest[2]

    return cached_ask


async def side_value(
    verdict_for: AskJudge[Verdict], reply: Reply, sample: Sample, to_list: Callable[[Verdict], list[Any]]
) -> str | NotApplicable:
    """Return a value recorded along with a score, as JSON.

    Without a verdict the score is lost, which counts once: this value does not apply.
    """
    try:
        return json.dumps(to_list(await verdict_for(reply, sample)))
    except (BackendError, NoVerdict) as error:
        return NotApplicable(str(error))


def rubric(
    name: str,
    question: str,
    *,
    levels: Mapping[str, float],
    reference: bool = False,
    human: str | Path | None = None,
    votes: int = 1,
    combine: Combine = "majority",
) -> Metric:
    """Return a metric with the value, from 0 to 1, of the level that the judge assigns.

    With several `votes` the judge is asked as often, and each verdict is a draw of its own. The value is that of the level with
    most votes, or the mean of those that tie; with combine="mean" it is the mean of all votes.

    `levels` are names and their values; `question` describes the quality to judge and each level. With `reference` the
    judge sees the expected answer. `human` is a key of the sample's metadata with the level that a person assigned to this
    very reply: then the report shows how far the judge agrees. Labels of replies to variants, too, are a mapping:
    {"clean": "good", "homoglyph": "poor"}. A file of `crucible view --labels`, "labels.csv" or "labels.csv:anna", has the labels
    of very replies, with weights. Raises SpecError for invalid levels.
    """
    _check_rubric(name, question, levels)
    check_votes(f"rubric {name!r}", votes, combine)
    task = (question, DATA, "Levels: " + ", ".join(levels))

    async def level(reply: Reply, sample: Sample) -> Votes:
        configured = judge()
        assert configured is not None
        expected = [("reference", _text(sample.expected))] if reference and sample.expected is not None else []
        parts = wrap_in_tags([("question", _text(sample.input)), *expected, ("answer", reply.text)])
        return await request_votes(configured, "\n\n".join((*task, *parts, closing_lines(levels))), levels, votes)

    votes_for = judge_once(level)

    async def value(reply: Reply, sample: Sample) -> float | NotApplicable:
        return (
            NO_JUDGE_CONFIGURED if judge() is None else combined_value(await votes_for(reply, sample), levels, combine)
        )

    value.__doc__ = f"The level that the judge assigns: {', '.join(levels)}."
    depends = judge_version(
        "rubric", *task, sorted(levels.items()), reference, *((votes, combine) if votes > 1 else ())
    )
    beside = (
        *_human_metric(name, human, levels, votes_for, depends),
        *_votes_metric(name, votes, votes_for, lambda ballot: [ballot], depends),
    )
    return Metric(function=value, facts=_judged_facts(name, votes), depends=depends, beside=beside)


def _judged_facts(name: str, requests: int) -> MetricFacts:
    return replace(declared_facts(name, bounds=(0, 1)), judge_requests=requests)


def _votes_metric(
    name: str, votes: int, votes_for: AskJudge[Verdict], to_list: Callable[[Verdict], list[Any]], depends: Any
) -> tuple[Metric, ...]:
    """Return the metric that records the votes on a reply, by question; none of a single vote."""
    if votes == 1:
        return ()

    @metric(name=f"{name}{VOTES}", kind="text")
    async def list_votes(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The votes on each question about the reply, as a JSON list of lists."""
        return NO_JUDGE_CONFIGURED if judge() is None else await side_value(votes_for, reply, sample, to_list)

    return (Metric(function=list_votes.function, facts=list_votes.facts, depends=depends),)


def _human_metric(
    name: str, human: str | Path | None, levels: Mapping[str, float], votes_for: AskJudge[Votes], depends: Any
) -> tuple[Metric, ...]:
    if human is None:
        return ()
    file = labels_file(human)

    def version() -> str:
        return ":".join((depends(), *((file.version(),) if file else ())))

    @metric(name=f"{name}{HUMAN}", kind="text")
    async def labels(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The judge's level, a person's, the value of the person's, and its weight where it has one, as a JSON list."""
        weight: tuple[float, ...] = ()
        if file is None:
            human_level = _own_label(sample.metadata.get(str(human)), current_reply().variant)
        elif (label := file.find(reply, sample)) is not None:
            human_level, weight = label.text, (label.weight,)
        else:
            human_level = None
        if human_level is None or judge() is None:
            return NotApplicable(_no_label_reason(human, file)) if human_level is None else NO_JUDGE_CONFIGURED
        if human_level not in levels:
            raise ValueError(
                f"sample {sample.id!r} has {human} = {human_level!r}, which is not a level of {name!r}: "
                f"write one of {', '.join(levels)}"
            )
        return await side_value(
            votes_for, reply, sample, lambda votes: [_single_leader(votes), human_level, levels[human_level], *weight]
        )

    return (Metric(function=labels.function, facts=labels.facts, depends=version),)


def _no_label_reason(human: str | Path, file: LabelsFile | None) -> str:
    return (
        f"{human} has no label of this reply" if file else f"the sample has no {human!r} of this reply in its metadata"
    )


def _single_leader(votes: Votes) -> str:
    """Return the level with most votes. Raises NoVerdict if several have as many."""
    leaders = leading_verdicts(votes)
    if len(leaders) > 1:
        raise NoVerdict(f"the votes tie between {' and '.join(leaders)}")
    return leaders[0]


def _own_label(label: Any, variant: str) -> Any:
    """Return a person's label of the reply to a variant, or to the original sample; None without one.

    A plain label belongs to one reply: the one to the original sample.
    """
    if isinstance(label, Mapping):
        return label.get(variant or CLEAN)
    return None if variant else label


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _check_rubric(name: str, question: str, levels: Mapping[str, float]) -> None:
    if not question.strip():
        raise SpecError(f"rubric {name!r} has no question: write what the judge should judge")
    if (
        not isinstance(levels, Mapping)
        or len(levels) < 2
        or len({str(label).casefold() for label in levels}) < len(levels)
    ):
        raise SpecError(f'rubric {name!r} needs at least two levels, for example levels={{"poor": 0, "good": 1}}')
    for level, value in levels.items():
        if not isinstance(level, str) or not level.strip() or "\n" in level:
            raise SpecError(
                f"rubric {name!r} has the level {level!r}: write a level's name as one or a few words on one line"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise SpecError(
                f"rubric {name!r} has {level!r}: {value!r}; expected a number from 0 to 1 as the level's value"
            )


PREFERENCES = ("first", "second", "tie")
# Value of a verdict for the answer that is shown first.
AS_FIRST = {"first": 1.0, "second": 0.0, "tie": 0.5}


def pairwise(name: str, question: str, *, against: str | None = None, votes: int = 1) -> Metric:
    """Return a metric that compares the reply with another answer in both orders.

    It is 1 if the judge prefers the reply in both, 0 if it prefers the other answer in both, else 1/2. With several `votes`
    the preference of an order is that of most votes; votes that tie are a tie.

    The other answer is the expected one, or with `against` the one under that key of the sample's metadata. It is the same for
    all arms, so that their rates can be compared. The report shows how far the judge prefers a position. Raises SpecError
    without a question.
    """
    if not question.strip():
        raise SpecError(f"pairwise metric {name!r} has no question: write in which respect an answer should be better")
    check_votes(f"pairwise metric {name!r}", votes)
    task = (question, DATA)

    async def orders(reply: Reply, sample: Sample) -> tuple[Votes, Votes]:
        """Return the votes where the reply is shown first, and where it is shown second."""
        other = str(_other(sample, against))
        as_first = _query_order(task, sample, reply.text, other, votes)
        as_second = _query_order(task, sample, other, reply.text, votes)
        # Both orders at once: they are independent requests.
        first, second = await asyncio.gather(as_first, as_second)
        return first, second

    once = judge_once(orders)

    async def preference(reply: Reply, sample: Sample) -> float | NotApplicable:
        if (reason := _not_applicable(sample, against)) is not None:
            return reason
        first, second = _values_in_orders(await once(reply, sample))
        # Orders that disagree show a preference for a position, which is not one for an answer.
        return first if first == second else 0.5

    async def order_values(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The value of the reply when shown first and when shown second, as a JSON list."""
        return _not_applicable(sample, against) or await side_value(
            once, reply, sample, lambda ballots: list(_values_in_orders(ballots))
        )

    preference.__doc__ = "1 where the judge prefers the reply in both orders, 0 the other answer, else 1/2."
    depends = judge_version("pairwise", *task, against, *((votes,) if votes > 1 else ()))
    order_facts = metric(name=f"{name}{ORDERS}", kind="text")(order_values)
    order_metric = Metric(function=order_values, facts=order_facts.facts, depends=depends)
    beside = (order_metric, *_votes_metric(name, votes, once, list, depends))
    return Metric(function=preference, facts=_judged_facts(name, 2 * votes), depends=depends, beside=beside)


def _values_in_orders(ballots: tuple[Votes, Votes]) -> tuple[float, float]:
    """Return the value of the reply when it is shown first, and when it is shown second."""
    first, second = (_preference(votes) for votes in ballots)
    return first, 1 - second


def _preference(votes: Votes) -> float:
    leaders = leading_verdicts(votes)
    return AS_FIRST[leaders[0] if len(leaders) == 1 else "tie"]


def _other(sample: Sample, against: str | None) -> Any:
    return sample.expected if against is None else sample.metadata.get(against)


def _not_applicable(sample: Sample, against: str | None) -> NotApplicable | None:
    """Return why the metric does not apply; None if it does."""
    if judge() is None:
        return NO_JUDGE_CONFIGURED
    if _other(sample, against) is None:
        return NO_EXPECTED if against is None else NotApplicable(f"the sample has no {against!r} in its metadata")
    return None


async def _query_order(task: tuple[str, ...], sample: Sample, first: str, second: str, votes: int) -> Votes:
    configured = judge()
    assert configured is not None
    question = (
        sample.input if isinstance(sample.input, str) else json.dumps(sample.input, ensure_ascii=False, default=str)
    )
    answers = wrap_in_tags((("question", question), ("first", first), ("second", second)))
    prompt = "\n\n".join((*task, *answers, closing_lines(PREFERENCES)))
    return await request_votes(configured, prompt, PREFERENCES, votes)


@dataclass(frozen=True)
class LabelsFile:
    """A person's labels, by which replies they are of."""

    path: Path
    person: str

    def version(self) -> str:
        """Return a hash that changes with the file, so that stored agreements are computed again. Raises SpecError."""
        return hashlib.sha256(self._content()).hexdigest()[:16]

    def find(self, reply: Reply, sample: Sample) -> Label | None:
        """Return the label of this very reply; None without one."""
        scored = current_reply()
        key = ReplyKey(scored.experiment, sample.id, scored.variant, hash_reply(reply.text))
        return _read(self.path, self.person, self.path.stat().st_mtime_ns).get(key)

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise SpecError(
                f"human={str(self.path)!r} cannot be read ({error.strerror}): write it with crucible view RUN --labels"
            ) from None


def labels_file(human: str | Path) -> LabelsFile | None:
    """Return the file that an argument names, relative to the working directory; None for a key of the metadata."""
    name, person = split_person(human)
    return LabelsFile(Path(name), person) if name.endswith(".csv") else None


@lru_cache(maxsize=8)
def _read(path: Path, person: str, changed: int) -> Mapping[ReplyKey, Label]:
    """Return the labels of a file, which is read again after a change."""
    return read_labels(path, person)
