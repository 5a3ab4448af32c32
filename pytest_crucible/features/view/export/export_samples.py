"""Reads the samples of an experiment for files: texts of the sample and of its replies, and the scores of the first ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.features.view.sample.texts import prompt_text, shown_text
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmReply, Plan
from pytest_crucible.records.datasets import question_text
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.report.conversations import score_text
from pytest_crucible.report.html import excerpt_line
from pytest_crucible.report.printable import printable
from pytest_crucible.store.conversations import load_exchanges
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples

_PART = 25
"""Samples whose texts are in memory together: a reply may have megabytes."""


@dataclass(frozen=True, slots=True)
class ArmTexts:
    """The replies of an arm to a sample."""

    name: str
    replies: Sequence[tuple[str, str]]
    """State and text of each repeat."""
    scores: Sequence[tuple[str, str]]
    """Metric and score of the first one."""


@dataclass(frozen=True, slots=True)
class SampleTexts:
    """A sample as a file has it."""

    position: int
    id: str
    group: str
    excerpt: str
    input: str
    expected: str
    arms: Sequence[ArmTexts]


def read_samples(store: RunStore, key: int, plan: Plan, positions: range) -> Iterator[SampleTexts]:
    """Yield the samples at some positions of an experiment, in that order."""
    for start in range(positions.start, positions.stop, _PART):
        part = list(positions[start - positions.start :][:_PART])
        of_samples, scores = samples(store, plan.dataset_sha256, part), _scores(store, key, plan, part)
        for exchange in load_exchanges(store, key, plan, part):
            sample = of_samples[exchange.position]
            arms = zip(plan.arms, exchange.replies, strict=True)
            yield SampleTexts(
                position=exchange.position,
                id=sample.id,
                group=sample.group or "",
                excerpt=excerpt_line(question_text(sample.input)),
                input=prompt_text(sample.input),
                expected="" if sample.expected is None else shown_text(sample.expected),
                arms=[
                    ArmTexts(arm.name, [_reply(reply) for reply in replies], scores[number, exchange.position])
                    for number, (arm, replies) in enumerate(arms)
                ],
            )


def _reply(reply: ArmReply) -> tuple[str, str]:
    state = "" if reply.state == "answered" else ": ".join(filter(None, (reply.state, reply.detail)))
    return printable(state), shown_text(fold_reasoning(reply.text))


def _scores(
    store: RunStore, key: int, plan: Plan, positions: Sequence[int]
) -> Mapping[tuple[int, int], list[tuple[str, str]]]:
    """Return metric and score of each arm's first reply, by the number of the arm and the position."""
    columns = {
        "observations": "metric, value, is_bool, label",
        "lost": "metric, NULL, NULL, 'lost: ' || reason",
    }
    scores: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for table, values in columns.items():
        query = f"""
            SELECT arms.number, position, {values} FROM {table} JOIN arms ON arms.id = {table}.arm
            WHERE arms.experiment = :experiment AND arms.number < :arms AND {table}.epoch = 0
                AND position BETWEEN :first AND :last AND metric <> ''
            ORDER BY arms.number, position, metric
        """
        rows = store.rows(query, experiment=key, arms=len(plan.arms), first=positions[0], last=positions[-1])
        for number, position, metric, value, is_bool, label in rows:
            score = label if label is not None else bool(value) if is_bool and value is not None else value
            scores[number, position].append((metric, printable(score_text(score))))
    return scores
