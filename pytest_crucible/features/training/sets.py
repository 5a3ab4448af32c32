"""Training sets from stored runs: which replies become rows, the files and their card."""

from __future__ import annotations

import contextlib
import gc
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.features.training.set_attempts import (
    Attempt,
    count_replies,
    load_attempts,
    sample_inputs,
    stored_kinds,
)
from pytest_crucible.features.training.set_rows import (
    CARD,
    HOLDOUT,
    ORIGINS,
    Line,
    Shape,
    TrainingSet,
    build_set,
    card_text,
    describe_file,
    find_format,
    origin_lines,
    prompts_of,
    read_old_rows,
    with_messages,
)
from pytest_crucible.features.training.set_selection import (
    Criterion,
    make_criterion,
    parse_on,
    select_adversarial,
    select_rows,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, MetricFacts, Plan
from pytest_crucible.records.datasets import normalise
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.secret_settings import hide_encoded
from pytest_crucible.records.serialize import canonical
from pytest_crucible.runs.plugins import variant_rules
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.store import schema
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore

NO_CALL = "no stored call"


@dataclass(frozen=True, kw_only=True)
class TrainingSetRequest:
    """The runs and options that a training set is made of."""

    runs: tuple[str, ...]
    """Ids, oldest first."""
    shape: Shape
    arm: str = ""
    """Empty: the candidate of each experiment."""
    on: str = ""
    gap: float = 0.0
    replay_file: Path | None = None
    allow_gate_samples: bool = False
    attacked: bool = False
    """Rows of attacked prompts whose replies failed."""


@dataclass(frozen=True)
class Part:
    """One arm of one experiment of one run."""

    run: str
    key: int
    plan: Plan
    number: int
    criterion: Criterion | None
    """None if the experiment does not have the metric, or none was named."""


@dataclass(frozen=True)
class SourcedTrainingSet:
    """A training set, and the facts about its sources for the card."""

    training_set: TrainingSet
    parts: tuple[Part, ...]
    replies: int


def make_training_set(store: RunStore, request: TrainingSetRequest) -> SourcedTrainingSet:
    """Return the training set. Raises SpecError if the runs have no samples for it, or where it needs more settings."""
    find_format(request.shape.format, request.shape.task)
    if request.gap and request.shape.task != "dpo":
        raise SpecError(
            f"--gap is for pairs of replies, and --what {request.shape.task} has none: remove it, or use --what dpo"
        )
    with _paused_collector():
        return _make(store, request)


@contextlib.contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause Python's search for cycles: records have none, and it takes a third of the time to look at all of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _make(store: RunStore, request: TrainingSetRequest) -> SourcedTrainingSet:
    guard = _GateSamples(store, request.runs)
    parts = tuple(_add_criteria(store, list(_parts(store, request)), request))
    left_out: Counter[str] = Counter()
    attempts, replies = _load(store, parts, guard, request, left_out)
    criteria = {part.plan.nodeid: part.criterion for part in parts}
    if request.attacked:
        clean, _ = _load(store, parts, guard, replace(request, attacked=False), Counter())
        selected = select_adversarial(attempts, clean, criteria)
    else:
        selected = select_rows(attempts, request.shape.task, criteria, request.gap)
    if not selected.rows:
        has_attacks = any(_attacked_twins(part.plan) for part in parts)
        raise SpecError(_explain_empty(request, selected.left_out + left_out, has_attacks=has_attacks))
    old = _read_replayed(store, request, guard)
    return SourcedTrainingSet(
        build_set(selected.rows, request.shape, old, left_out + selected.left_out), parts, replies
    )


def _parts(store: RunStore, request: TrainingSetRequest) -> Iterator[tuple[str, int, Plan, int]]:
    """Yield the arm in each experiment that may be exported. Raises SpecError."""
    names: set[str] = set()
    has_any = False
    for run in request.runs:
        experiments = [(key, plan) for key, plan, _ in store.experiments(run)]
        usable = [(key, plan) for key, plan in experiments if request.allow_gate_samples or plan.purpose == "practice"]
        if not usable:
            raise SpecError(
                f'run {run} has no practice samples: set purpose="practice" in @pytest.mark.crucible, or pass --allow-gate-samples'
            )
        for key, plan in usable:
            arms = [arm.name for arm in plan.arms]
            names.update(arms)
            number = arms.index(request.arm) if request.arm in arms else 0 if not request.arm else None
            if number is not None:
                has_any = True
                yield run, key, plan, number
    if not has_any:
        hint = suggest(request.arm, sorted(names), otherwise=f"there are {', '.join(sorted(names))}")
        raise SpecError(f"--of={request.arm}: no such arm in these runs: {hint}")


def _add_criteria(
    store: RunStore, parts: Sequence[tuple[str, int, Plan, int]], request: TrainingSetRequest
) -> Iterator[Part]:
    """Yield the parts with their criteria. Raises SpecError for a missing or unknown metric."""
    stored_names: dict[str, None] = {}
    metric = parse_on(request.on)[0]
    has_any = False
    for run, key, plan, number in parts:
        kinds = stored_kinds(store, key)
        facts = {each.name: each for each in plan.metrics}
        stored_names |= dict.fromkeys((*facts, *kinds))
        has_metric = bool(metric) and (metric in facts or metric in kinds)
        has_any |= has_metric
        criterion = _criterion(request.on, metric, facts.get(metric), kinds.get(metric)) if has_metric else None
        yield Part(run, key, plan, number, criterion)
    if not metric and (request.attacked or request.shape.task != "sft"):
        what = "adversarial" if request.attacked else request.shape.task
        raise SpecError(f"--what={what} needs --on METRIC, which decides what passed: {', '.join(stored_names)}")
    if metric and not has_any:
        hint = suggest(metric, stored_names, otherwise=f"there are {', '.join(stored_names) or 'none'}")
        raise SpecError(f"--on={request.on}: these experiments have no metric {metric!r}: {hint}")


def _criterion(on: str, metric: str, facts: MetricFacts | None, kind: str | None) -> Criterion:
    facts = facts or MetricFacts(name=metric)
    kind = facts.kind or kind
    if kind == "text":
        raise SpecError(f"--on={on}: {metric!r} is a text, which neither passes nor fails: name another metric")
    return make_criterion(on, facts, is_binary=kind == "binary")


def _load(
    store: RunStore, parts: Sequence[Part], guard: _GateSamples, request: TrainingSetRequest, left_out: Counter[str]
) -> tuple[list[Attempt], int]:
    """Return the replies that may become rows, and how many are stored."""
    attempts: list[Attempt] = []
    total = 0
    metric = parse_on(request.on)[0]
    for part in parts:
        is_gate = guard.is_gate if part.plan.purpose == "practice" else lambda _: True
        twins = _attacked_twins(part.plan) if request.attacked else [0]
        stored = [
            attempt
            for twin in twins
            for attempt in load_attempts(
                store, part.key, part.plan, part.number, metric, run=part.run, is_gate=is_gate, twin=twin
            )
        ]
        replies = len(stored) if request.attacked else max(count_replies(store, part.key, part.number), len(stored))
        left_out[NO_CALL] += replies - len(stored)
        total += replies
        allowed = [attempt for attempt in stored if request.allow_gate_samples or not attempt.sample.is_gate]
        left_out["also a sample of a gate (--allow-gate-samples)"] += len(stored) - len(allowed)
        attempts += map(_as_sent, allowed) if _sends_messages(part) else allowed
    return attempts, total


def _attacked_twins(plan: Plan) -> list[int]:
    """Return the numbers of the twins of attacks, without the control's."""
    attacked = set(variant_rules(plan).attacked)
    return [number for number, variant in enumerate(plan.variants, start=1) if variant.name in attacked]


def _sends_messages(part: Part) -> bool:
    backend = part.plan.arms[part.number].adapter.partition(":")[0]
    return kind_of(Adapter(name="", backend=backend)).sends_messages


def _as_sent(attempt: Attempt) -> Attempt:
    """Return the attempt with a text as the message that its server was sent."""
    is_text = isinstance(attempt.prompt, str)
    return attempt._replace(prompt=with_messages(attempt.prompt)) if is_text else attempt


def _explain_empty(request: TrainingSetRequest, left_out: Counter[str], *, has_attacks: bool) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common() if count)
    if request.attacked:
        if has_attacks and not reasons:
            return "no attacked reply has a stored call: let the test send its requests through sampler"
        return f"no attacked reply failed: {reasons or 'these experiments have no attacks'}"
    if request.shape.task == "dpo":
        gap = next((reason for reason in left_out if reason.startswith("closer than")), None)
        if gap is not None:
            return f"no chosen and rejected reply are {request.gap:g} apart: lower --gap, or raise epochs"
        return "no sample has both a chosen and a rejected reply: raise epochs, or use --what kto"
    return f"no reply becomes a row of --what {request.shape.task}: {reasons or 'the experiments have no replies'}"


def _read_replayed(store: RunStore, request: TrainingSetRequest, guard: _GateSamples) -> list[Line]:
    """Return the old rows. Raises SpecError for rows of gate samples that are not allowed."""
    path = request.replay_file
    if path is None:
        return []
    sha256 = hash_file(path) if path.is_file() else ""
    stored_names = find_training_set(store, sha256)
    origins = stored_names[1].splitlines() if stored_names else []
    lines = read_old_rows(path, sha256, request.shape.format, request.shape.task, origins)
    marked = []
    for line, prompt in zip(lines, prompts_of(lines), strict=True):
        is_gate = bool(line[1].get("gate")) or guard.is_gate_text(prompt)
        marked.append((line[0], {**line[1], "gate": True}) if is_gate else line)
    count = sum(bool(origin.get("gate")) for _, origin in marked)
    if count and not request.allow_gate_samples:
        raise SpecError(
            f"{count} of {len(marked)} rows of {path} are samples of a gate, whose verdicts they would spoil: "
            "replay another file, or add --allow-gate-samples"
        )
    return marked


class _GateSamples:
    """The samples of the runs' experiments that give verdicts."""

    def __init__(self, store: RunStore, runs: Sequence[str]) -> None:
        plans = [plan for run in runs for _, plan, _ in store.experiments(run) if plan.purpose == "gate"]
        datasets = dict.fromkeys(plan.dataset_sha256 for plan in plans)
        inputs = [value for dataset in datasets for value in sample_inputs(store, dataset)]
        self._inputs = frozenset(map(_input_key, inputs))
        self._texts = frozenset(normalise(value) for value in inputs if isinstance(value, str))

    def is_gate(self, value: Any) -> bool:
        return bool(self._inputs) and _input_key(value) in self._inputs

    def is_gate_text(self, prompt: str) -> bool:
        return bool(self._texts) and normalise(prompt) in self._texts


def _input_key(value: Any) -> str:
    return normalise(value) if isinstance(value, str) else canonical(value)


def write_training_set(
    store: RunStore, sourced: SourcedTrainingSet, request: TrainingSetRequest, path: Path
) -> list[tuple[Path, int]]:
    """Write all files of a training set, and return those with rows. Raises SpecError, with nothing written."""
    files = [_File.of(path, sourced.training_set.lines)]
    if sourced.training_set.holdout:
        files.append(_File.of(path.with_name(f"{path.stem}{HOLDOUT}{path.suffix}"), sourced.training_set.holdout))
    facts = set_facts(sourced, request)
    texts: list[tuple[Path, str]] = []
    for file in files:
        card = {**file.facts, **facts, "divided_from": [other.facts for other in files if other is not file]}
        # The file itself comes last: where it is, its card is.
        beside = [(file.path.with_suffix(ORIGINS), file.origins), (file.path.with_suffix(CARD), card_text(card))]
        texts += [*beside, (file.path, file.text)]
        add_training_set(
            store, file.facts["sha256"], name=file.path.name, created=utc_now(), card=card, origins=file.origins
        )
    _write_all(texts)
    return [(file.path, file.facts["rows"]) for file in files]


@dataclass(frozen=True)
class _File:
    """A file to write, with its origins and the content of its card."""

    path: Path
    text: str
    origins: str
    facts: Mapping[str, Any]

    @staticmethod
    def of(path: Path, lines: Sequence[Line]) -> _File:
        text, origins = "".join([f"{line}\n" for line, _ in lines]), [origin for _, origin in lines]
        origins_text = origin_lines(origins)
        return _File(path, text, origins_text, {"file": path.name, **describe_file(text, origins, origins_text)})


def set_facts(sourced: SourcedTrainingSet, request: TrainingSetRequest) -> dict[str, Any]:
    """Return the common part of the cards of a training file and its holdout."""
    shape, part = request.shape, next((part for part in sourced.parts if part.criterion), None)
    return {
        "what": "adversarial" if request.attacked else shape.task,
        "format": shape.format,
        "runs": list(dict.fromkeys(part.run for part in sourced.parts)),
        "arms": list(dict.fromkeys(part.plan.arms[part.number].name for part in sourced.parts)),
        "passed": part.criterion.text if part and part.criterion else None,
        "gap": request.gap,
        "replies": sourced.replies,
        "left_out": {reason: count for reason, count in sorted(sourced.training_set.left_out.items()) if count},
        "holdout": shape.holdout,
        "replay": _replay_facts(sourced, request),
        "seed": shape.seed,
        "allow_gate_samples": request.allow_gate_samples,
        "datasets": list(_datasets(sourced.parts)),
    }


def _replay_facts(sourced: SourcedTrainingSet, request: TrainingSetRequest) -> dict[str, Any] | None:
    if request.replay_file is None:
        return None
    hashes = {origin["file_sha256"] for _, origin in sourced.training_set.lines if "file_sha256" in origin}
    return {
        "file": request.replay_file.name,
        "sha256": next(iter(hashes), None),
        "share": request.shape.replay,
        "rows": sourced.training_set.replayed,
    }


def _datasets(parts: Sequence[Part]) -> Iterator[Mapping[str, Any]]:
    digests = set()
    for part in parts:
        plan = part.plan
        if plan.dataset_sha256 not in digests:
            digests.add(plan.dataset_sha256)
            yield {
                "name": plan.dataset,
                "sha256": plan.dataset_sha256,
                "licence": (plan.origin and plan.origin.licence) or "not declared",
                "source": plan.origin and plan.origin.source,
                "purpose": plan.purpose,
            }


def _write_all(texts: Sequence[tuple[Path, str]]) -> None:
    """Write all texts as drafts, then rename them: an error leaves no file behind."""
    drafts = [(path.with_name(f".{path.name}.{os.getpid()}"), path, text) for path, text in texts]
    try:
        for draft, _, text in drafts:
            draft.write_text(text, encoding="utf-8", newline="\n")
        for draft, path, _ in drafts:
            draft.replace(path)
    except OSError as error:
        place = str(texts[-1][0])
        raise SpecError(f"{place!r} cannot be written: {error.strerror or error}") from error
    finally:
        for draft, _, _ in drafts:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def add_training_set(
    store: RunStore, sha256: str, *, name: str, created: str, card: Mapping[str, Any], origins: str
) -> None:
    """Store the card and the origins of a file, once: equal files have equal rows, and the first export counts."""
    # Compressed, it would pass where all other texts are redacted.
    body = zlib.compress(hide_encoded(origins, store.hide).encode("utf-8"))
    row = {"sha256": sha256, "name": name, "created": created, "card": dict(card), "origins": body}
    store.insert(schema.training_sets, [row])


def find_training_set(store: RunStore, sha256: str) -> tuple[Mapping[str, Any], str] | None:
    """Return the card and the origins (JSON Lines) of a file with this hash; None for a file that was not exported here."""
    row = store.first("SELECT card, origins FROM training_sets WHERE sha256 = :sha256", sha256=sha256)
    return None if row is None else (from_json(row[0]), zlib.decompress(row[1]).decode("utf-8"))
