"""`crucible guards`: list those of this directory, try one on a text, train a linear one, choose a threshold."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_crucible.commands.options import json_option, parse_field, print_result, run_argument, store_option
from pytest_crucible.datasets import load_file
from pytest_crucible.features.guards.guard import Guard, GuardSettings
from pytest_crucible.features.guards.metrics import read_expected
from pytest_crucible.features.guards.project_guards import Guards
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import label_number
from pytest_crucible.records.errors import SpecError, closest_name
from pytest_crucible.records.outcomes import Detection
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import aligned_lines, printable
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.run_store import existing_store

if TYPE_CHECKING:
    from pytest_crucible.store.runs import RunStore

HEADERS = ("name", "kind", "threshold", "action", "on error")


@click.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the guards in crucible.toml or pyproject.toml of this directory."""
    settings, problems = _read_settings(Guards(Path.cwd()))
    lines = aligned_lines([HEADERS, *map(_row, settings)])
    nothing = ["no guards here: add a table [guards.NAME] to crucible.toml"]
    broken = [{"name": name, "error": problem} for name, problem in problems.items()]
    if settings or as_json or not problems:
        print_result(lines if settings else nothing, [*to_plain(settings), *broken], as_json=as_json)
    if problems:
        # The others are listed first.
        raise SpecError("\n".join(problems.values()))


@click.command("try")
@click.argument("name")
@click.option("--text", required=True, metavar="TEXT", help="Text to try the guard on.")
@click.option("--obfuscations", is_flag=True, help="Try the guard on each obfuscation of the text, too.")
@json_option
def try_one(name: str, text: str, obfuscations: bool, as_json: bool) -> None:
    """Show what the guard NAME decides on a text, and which parts of it it has found."""
    guard = Guards(Path.cwd()).open(name)
    if obfuscations:
        detections = asyncio.run(detect_obfuscated(guard, text))
        print_result(map(printable, obfuscation_lines(detections)), detections, as_json=as_json)
    else:
        detection = asyncio.run(guard.detect(text))
        print_result(map(printable, detection_lines(name, text, detection)), detection, as_json=as_json)


@click.command("train")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="PATH", help="The file to write, a safetensors file.")
@click.option("--field", "fields", multiple=True, metavar="OURS=THEIRS", help="A field of the file, input=text.")
@json_option
def train(file: str, output: str, fields: Sequence[str], as_json: bool) -> None:
    """Fit a guard of kind "linear" to the labelled texts of FILE, whose fields are input and expected."""
    from pytest_crucible.features.guards.linear import fit_linear, save_linear

    renamed = dict(map(parse_field, fields))
    samples = load_file(Path(file), fields=renamed, has_option=True)
    labels = _read_labels(samples, renamed.get("expected", "expected"))
    try:
        model = fit_linear([str(sample.input) for sample in samples], labels)
    except ValueError as error:
        raise SpecError(f"{file}: {error}") from None
    try:
        save_linear(model, Path(output))
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error}") from None
    attacks, benign = sum(labels), len(labels) - sum(labels)
    lines = [
        f"{output}: fitted to {attacks:,} attacks and {benign:,} benign texts",
        f'use it in crucible.toml: kind = "linear", path = "{output}"',
    ]
    print_result(lines, {"file": output, "attacks": attacks, "benign": benign}, as_json=as_json)


def _read_settings(guards: Guards) -> tuple[list[GuardSettings], dict[str, str]]:
    """Return the settings of the usable guards, and the errors of the others."""
    settings, problems = [], {}
    for name in guards.names:
        try:
            settings.append(guards.settings(name))
        except SpecError as error:
            problems[name] = str(error)
    return settings, problems


def _row(guard: GuardSettings) -> tuple[str, ...]:
    return (
        guard.name,
        f"any of {', '.join(guard.guards)}" if guard.guards else guard.kind,
        "" if guard.guards else f"{guard.threshold:g}",
        guard.action,
        guard.on_error,
    )


def detection_lines(name: str, text: str, detection: Detection) -> list[str]:
    """Return a guard's verdict on a text: flagged or not, score and category, and the spans that it found."""
    verdict = "flagged" if detection.flagged else "not flagged"
    category = f", {detection.category}" if detection.category else ""
    span_lines = [f"  {span.type} {span.start}-{span.end}: {text[span.start : span.end]}" for span in detection.spans]
    return [f"{name}: {verdict}, score {detection.score:.3g}{category}", *span_lines]


OBFUSCATION_HEADS = ("obfuscation", "flagged", "score", "category")
CLEAN = "(none)"


def obfuscate(text: str) -> Iterator[tuple[str, str]]:
    """Yield the obfuscations that apply to a text, each with the whole text written so; first the text as it is."""
    yield CLEAN, text
    for obfuscated in program_plugins().hook.pytest_crucible_obfuscate(text=text):
        yield from obfuscated.items()


async def detect_obfuscated(guard: Guard, text: str) -> dict[str, Detection]:
    """Return the guard's detection for each obfuscation of a text."""
    return {name: await guard.detect(obfuscated) for name, obfuscated in obfuscate(text)}


def obfuscation_lines(detections: Mapping[str, Detection]) -> list[str]:
    """Return the table, and how many of the obfuscations the guard flags."""
    rows = [
        (name, "yes" if detection.flagged else "no", f"{detection.score:.3g}", detection.category)
        for name, detection in detections.items()
    ]
    flagged = sum(detection.flagged for name, detection in detections.items() if name != CLEAN)
    return [*aligned_lines([OBFUSCATION_HEADS, *rows]), f"flagged in {flagged} of {len(detections) - 1} obfuscations"]


# Common names for the field of labels.
_LABEL_NAMES = ("label", "labels", "target", "class", "attack", "injection")
_LABELS = '1 or 0, true or false, "attack" or "benign"'


def _read_labels(samples: Sequence[Sample], field: str) -> list[bool]:
    labels = [label_number(read_expected(sample.expected)) for sample in samples]
    unread = next((sample for sample, label in zip(samples, labels, strict=True) if label is None), None)
    if unread is None:
        return [label == 1 for label in labels]
    if unread.expected is not None:
        raise SpecError(f"label {unread.expected!r:.60} of sample {unread.id}: expected {_LABELS}")
    if any(label is not None for label in labels) or not unread.metadata:
        raise SpecError(f"sample {unread.id} has no label in {field!r}: write {_LABELS}")
    likely = closest_name(field, unread.metadata) or next(filter(unread.metadata.__contains__, _LABEL_NAMES), "...")
    names = ", ".join(map(repr, unread.metadata))
    raise SpecError(
        f"sample {unread.id} has no label in {field!r} (its other fields: {names}): "
        f"name the field with --field expected={likely}"
    )


@click.command("threshold")
@run_argument
@click.option(
    "--false-alarms", type=float, required=True, metavar="RATE", help="Largest false-alarm rate, such as 0.01."
)
@click.option("-o", "--output", required=True, metavar="FILE", help='The file to write: threshold = "FILE" uses it.')
@store_option
@json_option
def find_threshold(run: str, false_alarms: float, output: str, store: str, as_json: bool) -> None:
    """Write the lowest threshold whose false-alarm rate is at most RATE with 95 % confidence.

    It is an order statistic of the scores of the run's benign samples. RUN judged a guard: --crucible-adapter=guard:NAME.
    """
    # Imported here: the other commands on guards need no statistics.
    from pytest_crucible.features.guards.normalise import ThresholdFile, write_threshold
    from pytest_crucible.stats.classifiers import benign_texts_needed, choose_threshold

    if not 0 < false_alarms < 1:
        raise SpecError(f"--false-alarms {false_alarms:g}: expected a rate between 0 and 1, for example 0.01")
    with existing_store(store, reader="crucible guards threshold") as opened:
        run_id = opened.find_run(run)
        benign = read_benign_scores(opened, run_id)
    needed = benign_texts_needed(false_alarms)
    n = len(benign.scores)
    if n < needed:
        raise SpecError(_too_few(benign, false_alarms, needed, run_id))
    threshold = choose_threshold(benign.scores, false_alarms)
    if threshold is None or threshold > 1:
        raise SpecError(
            f"no threshold of at most 1 keeps false alarms at {false_alarms:g}: "
            f"{sum(score >= 1 for score in benign.scores):,} of {n:,} benign {benign.unit}s of run {run_id} have the highest "
            "score; allow more, or change the guard"
        )
    chosen = ThresholdFile(
        threshold=threshold, false_alarms=false_alarms, guard=benign.guard, run=run_id, n=n, texts=benign.texts
    )
    try:
        write_threshold(Path(output), chosen)
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error}") from None
    flagged = sum(score >= threshold for score in benign.scores)
    lines = [
        f"{output}: threshold {threshold:g} flags {flagged:,} of {n:,} different benign {benign.unit}s of run {run_id}: "
        f"at most {false_alarms:g} false alarms with 95 % confidence",
        "judge the guard on other texts: verdicts that depend on these are undecided",
    ]
    print_result(
        lines,
        {"file": output, "threshold": threshold, "false_alarms": false_alarms, "run": run_id, "n": n},
        as_json=as_json,
    )


def _too_few(benign: BenignScores, false_alarms: float, needed: int, run: str) -> str:
    from pytest_crucible.stats.classifiers import smallest_rate

    n = len(benign.scores)
    advice = f"add {benign.unit}s"
    if n:
        # Rounded up, so that it can be had.
        advice += f" or allow {math.ceil(smallest_rate(n) * 1000) / 1000:g}"
    has = f"{n:,}, in {benign.samples:,} benign samples" if benign.samples > n else f"{n:,}"
    needs = f"--false-alarms {false_alarms:g} needs at least {needed:,} different benign {benign.unit}s"
    return f"{needs}; run {run} has {has}: {advice}"


SCORE = "guard_score"


@dataclass(frozen=True, slots=True)
class BenignScores:
    """One score for each different benign text, or group of texts, of a run's candidate."""

    guard: str
    scores: list[float]
    texts: tuple[str, ...]
    """A hash of each benign text."""
    samples: int
    """Benign samples: of several with equal texts one is counted."""
    unit: str
    """`text`, or `group` where texts have groups: then a score is the highest of a group's."""


def read_benign_scores(store: RunStore, run: str) -> BenignScores:
    """Return the scores of all experiments of a run that judged a guard. Raises SpecError if none did."""
    from pytest_crucible.analyse.analysis import score_table
    from pytest_crucible.features.guards.normalise import hash_text
    from pytest_crucible.features.guards.protections import input_text
    from pytest_crucible.records.plan import EQUAL_INPUTS
    from pytest_crucible.runs.evaluate import analysis_inputs
    from pytest_crucible.store.conversations import load_exchanges
    from pytest_crucible.store.experiments import load_experiments

    units = _Units()
    guard, has_groups = "", False
    for stored in load_experiments(store, run):
        table = score_table(analysis_inputs(stored, stored.finished))
        if SCORE not in table.scores:
            continue
        guard = stored.plan.candidate.name.removeprefix("guard:")
        values = table.scores[SCORE][0].values
        equal = EQUAL_INPUTS.of(stored.plan)
        # Groups of equal inputs alone are equal texts, which count once anyway.
        is_grouped = table.clusters is not None and (equal is None or equal.declared > 0)
        has_groups = has_groups or is_grouped
        for exchange in load_exchanges(store, stored.key, stored.plan, range(len(values))):
            value = float(values[exchange.position])
            if label_number(read_expected(exchange.expected)) == 0 and value == value:
                group = stored.groups[exchange.position] if is_grouped else None
                units.add(hash_text(input_text(exchange.input)), group, value)
    if not guard:
        raise SpecError(
            f"run {run} has no {SCORE}: judge the guard first, pytest --crucible-adapter=guard:NAME, on labelled texts"
        )
    unit = "group" if has_groups else "text"
    return BenignScores(guard, units.read_scores(), tuple(units.unit_of_text), units.samples, unit)


class _Units:
    """Different texts, or groups of texts, with their highest scores. A second copy of a text shows nothing new.

    Groups that share a text are one.
    """

    def __init__(self) -> None:
        self.unit_of_text: dict[str, object] = {}
        self.samples = 0
        self._scores: dict[object, float] = {}
        self._joined: dict[object, object] = {}

    def add(self, text: str, group: object, score: float) -> None:
        unit = self._find(text if group is None else ("group", group))
        other = self._find(self.unit_of_text.setdefault(text, unit))
        if other != unit:
            self._joined[unit] = other
            score = max(score, self._scores.pop(unit, 0.0))
        self._scores[other] = max(score, self._scores.get(other, 0.0))
        self.samples += 1

    def read_scores(self) -> list[float]:
        return list(self._scores.values())

    def _find(self, unit: object) -> object:
        while unit in self._joined:
            unit = self._joined[unit]
        return unit
