"""`crucible data check`: the standard checks, and labels that models contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import (
    field_option,
    json_option,
    load_dataset,
    output_option,
    print_result,
    store_option,
)
from pytest_crucible.features.data_checks.answers import FEW_LABELS, run_standard
from pytest_crucible.features.data_checks.section import check_view, count_text
from pytest_crucible.metrics.numbers import final_number
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import normalise
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.serialize import canonical
from pytest_crucible.report.markdown import check_format, write_view
from pytest_crucible.report.printable import printable
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.outcomes import reply_texts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import sample_contents

_MARKS = {"passed": "ok  ", "warned": "warn", "failed": "FAIL"}


@click.command("check")
@click.argument("name")
@field_option
@store_option
@output_option
@json_option
def check_dataset(name: str, fields: Sequence[str], store: str, output: Path | None, as_json: bool) -> int:
    """Check a dataset before anything is sent: duplicates, answers in prompts, broken texts and more.

    Also lists samples whose expected answer three models in the run store contradict with one answer. NAME is a dataset's name or
    the path of a file. Exits 1 when a check fails; warnings and contradicted samples do not count.
    """
    if output is not None:
        check_format(output)
    samples, _ = load_dataset(name, fields)
    results = run_standard(samples)
    contradicted = []
    # A dataset needs no run store to be checked.
    if "://" in store or Path(store).is_file():
        with existing_store(store, reader="crucible data check") as runs:
            contradicted = find_contradicted(runs, samples)
    view = check_view(name, results, [_sentence(entry) for entry in contradicted])
    if output is not None:
        write_view(view, output)
        click.echo(f"wrote {output}: {count_text(results)}")
    else:
        lines = [f"{name}: {len(samples):,} samples, {count_text(results)}"]
        lines += [f"{_MARKS[result.state]}  {printable(result.sentence)}" for result in results]
        lines += map(_sentence, contradicted)
        print_result(lines, {**view.document, "contradicted": contradicted}, as_json=as_json)
    return int(any(result.state == "failed" for result in results))


def _sentence(entry: Contradicted) -> str:
    return printable(
        f"label?  {entry.sample}: {', '.join(entry.arms)} agree on {entry.answer!r:.80}, and {entry.expected!r:.80} is expected"
    )


MODELS = 3
"""Models that have to agree. Three trainings of one recipe are three models, and may share an error."""

# SQLite allows 32,766 variables in a statement.
_AT_A_TIME = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """A sample whose expected answer models contradict."""

    sample: str
    expected: str
    answer: str
    """The answer on which they agree."""
    arms: tuple[str, ...]
    """Names of the models, sorted."""


def find_contradicted(store: RunStore, samples: Sequence[Sample]) -> list[Contradicted]:
    """Return the samples for which MODELS different models agree on another answer, and no model gives the expected one."""
    read = _answer_reader(samples)
    by_content = {
        (sample.id, canonical([sample.input, sample.expected])): sample
        for sample in samples
        if _is_text(sample.expected)
    }
    answers: dict[str, dict[str, tuple[str, str]]] = {}
    for sample, identity, name, text in _replies(store, by_content):
        # A model is represented by its first reply in the latest run.
        answers.setdefault(sample.id, {})[identity] = (read(text), name)
    by_id = {sample.id: sample for sample in by_content.values()}
    entries = [_find_contradiction(by_id[key], of_models, read) for key, of_models in answers.items()]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.sample)


def _find_contradiction(
    sample: Sample, of_models: dict[str, tuple[str, str]], read: Callable[[str], str]
) -> Contradicted | None:
    expected = read(str(sample.expected))
    answers = sorted(answer for answer, _ in of_models.values())
    if expected in answers or len(answers) < MODELS:
        return None
    [(answer, count)] = Counter(answers).most_common(1)
    if count < MODELS or not answer:
        return None
    arms = tuple(sorted(name for other, name in of_models.values() if other == answer))
    return Contradicted(sample=sample.id, expected=str(sample.expected), answer=answer, arms=arms)


def _replies(store: RunStore, by_content: dict[tuple[str, str], Sample]) -> Iterator[tuple[Sample, str, str, str]]:
    """Yield sample, model identity, arm and text of each first reply to one of the samples, the oldest run first."""
    positions_of: dict[str, dict[int, Sample]] = {}
    for summary in reversed(list_runs(store)):
        for key, plan, _ in store.all_experiments(summary.id):
            if plan.by_item:
                continue
            sha256 = plan.dataset_sha256
            if sha256 not in positions_of:
                contents = enumerate(sample_contents(store, sha256))
                positions_of[sha256] = {k: by_content[content] for k, content in contents if content in by_content}
            positions = positions_of[sha256]
            for number, arm in enumerate(plan.arms):
                if arm.simulated or arm.stored_run is not None:
                    continue
                places = list(positions)
                for start in range(0, len(places), _AT_A_TIME):
                    part = places[start : start + _AT_A_TIME]
                    for position, text in reply_texts(store, key, number, part).items():
                        yield positions[position], arm.identity, arm.name, text


def _is_text(expected: Any) -> bool:
    return isinstance(expected, str | int | float) and not isinstance(expected, bool)


def _answer_reader(samples: Sequence[Sample]) -> Callable[[str], str]:
    """Return the way to read the answer in a reply: as its last number, as the only label that it names, or as the whole text."""
    expected = {str(sample.expected) for sample in samples if _is_text(sample.expected)}
    if expected and all(final_number(text) is not None and len(text.split()) == 1 for text in expected):
        return lambda text: str(final_number(answer_text(text)) or "")
    labels = {normalise(text) for text in expected}
    if len(labels) > FEW_LABELS:
        return lambda text: normalise(answer_text(text))

    def read_label(text: str) -> str:
        reply = f" {normalise(answer_text(text)).rstrip('.')} "
        named = [label for label in labels if f" {label} " in reply]
        return named[0] if len(named) == 1 else reply.strip()

    return read_label
