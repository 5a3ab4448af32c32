"""`crucible trace`: what happened to a sample, on one line of time; decisions that a search finds, or two runs differ in."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.differences import ChainDifference, compare_runs
from pytest_crucible.features.provenance.exports.files import (
    check_timeline_file,
    timeline_file_options,
    write_timelines,
)
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.features.provenance.load_timeline import check_arm, load_timelines
from pytest_crucible.features.provenance.search import Found, find_decisions
from pytest_crucible.features.provenance.step_texts import step_texts
from pytest_crucible.features.provenance.timeline import OfReply, Step, Timeline, heading, steps_of_decisions
from pytest_crucible.features.provenance.trace_lines import TextLayout, text_lines, title_lines, trace_lines
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import A_LINE, AN_ID, printable
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids


@click.command("trace")
@run_argument
@click.argument("sample", default="")
@click.option("--arm", metavar="NAME", help="Only this arm.")
@click.option("--where", metavar="SEARCH", help="List decisions: 'kind = ambiguity_flagged and confidence < 0.7'.")
@click.option("--against", metavar="RUN", help="Compare decisions with those of another run, by their content.")
@click.option("-v", "is_whole", is_flag=True, help="Show texts whole, and list all decisions.")
@timeline_file_options
@store_option
@json_option
def print_trace(
    run: str,
    sample: str,
    arm: str | None,
    where: str | None,
    against: str | None,
    is_whole: bool,
    output: Path | None,
    style: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Follow SAMPLE through RUN: its calls with prompts and replies, requests, waits, retries, votes, decisions and scores.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. What a model says of itself stands behind `says:`. With
    --where or --against: the decisions of all samples, or of SAMPLE.
    """
    check_timeline_file(output, style)
    _check_options(where, against, output)
    of = _Replies(sample, arm)
    layout = TextLayout(shutil.get_terminal_size().columns, is_whole)
    with existing_store(store, reader="crucible trace") as opened:
        run = opened.find_run(run)
        if against is not None:
            _print_differences(opened, run, opened.find_run(against), of, layout, as_json=as_json)
            return
        timelines = (
            load_timelines(opened, run, _named_sample(opened, run, sample), arm=arm)
            if where is None
            else _find_timelines(opened, run, where, of)
        )
    if output is not None:
        _write_file(timelines, output, style, as_json=as_json)
        return
    lines = trace_lines(timelines, layout) if where is None else found_lines(timelines, run, layout)
    question = {"sample": sample} if where is None else {"where": where}
    _print_lines(lines, {"run": run, **question, "timelines": timelines}, as_json=as_json)


def _check_options(where: str | None, against: str | None, output: Path | None) -> None:
    if where is not None and against is not None:
        raise SpecError("--where searches one run and --against compares two: write one of them")
    if against is not None and output is not None:
        raise SpecError("--against compares two runs and -o writes the timelines of one: write one of them, or --json")


@dataclass(frozen=True, slots=True)
class _Replies:
    """The replies that are meant: those to one sample, in one arm, or all."""

    sample: str
    """Empty for those of all samples."""
    arm: str | None

    def includes(self, reply: OfReply) -> bool:
        return self.sample in ("", reply.sample) and self.arm in (None, reply.arm)

    def check(self, store: RunStore, run: str) -> None:
        """Raise SpecError for a sample or an arm that a run does not have: nothing would be found."""
        if self.sample:
            load_timelines(store, run, self.sample, arm=self.arm)
        else:
            check_arm(run, self.arm, [arm.name for _, plan, _ in store.all_experiments(run) for arm in plan.arms])


def _find_timelines(store: RunStore, run: str, where: str, of: _Replies) -> list[Timeline]:
    of.check(store, run)
    decisions = find_decisions(store, run, where)
    return found_timelines(run, [each for each in decisions if of.includes(each.chain)])


def _print_differences(
    store: RunStore, run: str, against: str, of: _Replies, layout: TextLayout, *, as_json: bool
) -> None:
    of.check(store, run)
    differences = [each for each in compare_runs(store, run, against) if of.includes(each)]
    lines = difference_lines(differences, run, against, layout)
    document = {"run": run, "against": against, "replies": differences}
    _print_lines(lines, document, as_json=as_json)


def _named_sample(store: RunStore, run: str, sample: str) -> str:
    if sample:
        return sample
    samples = [name for _, plan, _ in store.all_experiments(run) for name in all_sample_ids(store, plan.dataset_sha256)]
    example = f", such as `crucible trace {run} {shlex.quote(printable(samples[0], AN_ID))}`" if samples else ""
    raise SpecError(f"no sample is named: name one of the {len(samples):,} of run {run}{example}")


def _write_file(timelines: Sequence[Timeline], output: Path, style: str | None, *, as_json: bool) -> None:
    write_timelines(timelines, output, style)
    steps = sum(len(timeline.steps) for timeline in timelines)
    counts = f"{quantity(steps, 'step')} of {quantity(len(timelines), 'timeline')}"
    document = {"file": str(output), "timelines": len(timelines), "steps": steps}
    _print_lines([f"{counts} written to {output}"], document, as_json=as_json)


def _print_lines(lines: Iterable[str], document: Mapping[str, Any], *, as_json: bool) -> None:
    print_result((printable(line, A_LINE) for line in lines), document, as_json=as_json)


MOST_REPLIES = 20
"""Replies that are listed without -v."""


def found_timelines(run: str, decisions: Sequence[Found]) -> list[Timeline]:
    """Return for each reply a timeline of nothing but the decisions that a search has found."""
    return [
        Timeline(
            run=run,
            experiment=chain.experiment,
            arm=chain.arm,
            sample=chain.sample,
            repeat=chain.repeat,
            variant=chain.variant,
            steps=tuple(_steps_of(chain, [each.decision for each in group])),
        )
        for chain, group in groupby(decisions, lambda each: each.chain)
    ]


def _steps_of(chain: Chain, decisions: Sequence[Decision]) -> Iterator[Step]:
    # Titles and durations of stages depend on the whole chain.
    numbers = {decision.number for decision in decisions}
    steps = zip(chain.decisions, steps_of_decisions(chain.decisions), strict=True)
    return (step for decision, step in steps if decision.number in numbers)


def found_lines(timelines: Sequence[Timeline], run: str, layout: TextLayout) -> Iterator[str]:
    """Yield the decisions that a search has found, by reply, with their numbers in it."""
    steps = [step for timeline in timelines for step in timeline.steps]
    if not steps:
        yield f"no decision of run {run} matches"
        return
    noun = "decision" if all(_is_decision(step) for step in steps) else "event"
    yield f"{quantity(len(steps), noun)} of run {run} in {_replies(len(timelines))}"
    listed = timelines if layout.is_whole else timelines[:MOST_REPLIES]
    for timeline in listed:
        yield from ("", heading(timeline), *_decision_lines(timeline.steps, "", layout))
    yield from _rest(len(timelines) - len(listed))


def _is_decision(step: Step) -> bool:
    """Return whether a step is a decision of the test or a claim of the model, and neither a stage nor observed."""
    return step.kind == "decision" and (step.is_claim or step.facts.get("kind") in kinds.DECISIONS)


def _decision_lines(steps: Sequence[Step], sign: str, layout: TextLayout) -> Iterator[str]:
    for step, texts in zip(steps, step_texts(steps), strict=True):
        first, *more = title_lines(step, layout)
        yield f"{sign}{step.facts['number']:>{5 - len(sign)}}  {first}"
        yield from (f"{sign}{' ' * (7 - len(sign))}{line}" for line in more)
        for name, value in texts:
            yield from text_lines(name, value, layout)


def _replies(count: int) -> str:
    return f"{count:,} replies" if count != 1 else "1 reply"


def _rest(replies: int) -> Iterator[str]:
    if replies > 0:
        yield from ("", f"{_replies(replies)} more: -v lists all")


def difference_lines(
    differences: Sequence[ChainDifference], run: str, against: str, layout: TextLayout
) -> Iterator[str]:
    """Yield the replies whose decisions differ between two runs, the least similar first."""
    unlike = sorted((each for each in differences if each.added or each.removed), key=lambda each: each.similarity)
    equal = len(differences) - len(unlike)
    yield f"run {run} against run {against}: of {len(differences):,} replies with decisions {equal:,} have equal ones"
    listed = unlike if layout.is_whole else unlike[:MOST_REPLIES]
    for each in listed:
        yield from ("", f"{heading(each)}: similarity {each.similarity:.2f}")
        yield from _decision_lines(list(steps_of_decisions(each.added)), "+", layout)
        yield from _decision_lines(list(steps_of_decisions(each.removed)), "-", layout)
    yield from _rest(len(unlike) - len(listed))
