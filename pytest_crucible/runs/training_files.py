"""Writes a training file, its holdout, their cards and their origins, and stores where the rows come from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.runs.training_sets import Part, SourcedTrainingSet, TrainingSetRequest
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.training_sets import add_training_set
from pytest_crucible.training_sets.build import CARD, HOLDOUT, ORIGINS, Line, card_text, describe_file, origin_lines


def write_training_set(
    store: RunStore, made: SourcedTrainingSet, wanted: TrainingSetRequest, path: Path
) -> list[tuple[Path, int]]:
    """Write all files of a training set, and return those with rows. Raises SpecError, with nothing written."""
    files = [_File.of(path, made.training_set.lines)]
    if made.training_set.holdout:
        files.append(_File.of(path.with_name(f"{path.stem}{HOLDOUT}{path.suffix}"), made.training_set.holdout))
    facts = set_facts(made, wanted)
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


def set_facts(made: SourcedTrainingSet, wanted: TrainingSetRequest) -> dict[str, Any]:
    """Return the common part of the cards of a training file and its holdout."""
    shape, part = wanted.shape, next((part for part in made.parts if part.criterion), None)
    return {
        "what": "adversarial" if wanted.attacked else shape.task,
        "format": shape.format,
        "runs": list(dict.fromkeys(part.run for part in made.parts)),
        "arms": list(dict.fromkeys(part.plan.arms[part.number].name for part in made.parts)),
        "passed": part.criterion.text if part and part.criterion else None,
        "gap": wanted.gap,
        "replies": made.replies,
        "left_out": {reason: count for reason, count in sorted(made.training_set.left_out.items()) if count},
        "holdout": shape.holdout,
        "replay": _replay_facts(made, wanted),
        "seed": shape.seed,
        "allow_gate_samples": wanted.allow_gate_samples,
        "datasets": list(_datasets(made.parts)),
    }


def _replay_facts(made: SourcedTrainingSet, wanted: TrainingSetRequest) -> dict[str, Any] | None:
    if wanted.replay_file is None:
        return None
    hashes = {origin["file_sha256"] for _, origin in made.training_set.lines if "file_sha256" in origin}
    return {
        "file": wanted.replay_file.name,
        "sha256": next(iter(hashes), None),
        "share": wanted.shape.replay,
        "rows": made.training_set.replayed,
    }


def _datasets(parts: Sequence[Part]) -> Iterator[Mapping[str, Any]]:
    seen = set()
    for part in parts:
        plan = part.plan
        if plan.dataset_sha256 not in seen:
            seen.add(plan.dataset_sha256)
            licence = plan.origin.licence if plan.origin else None
            yield {
                "name": plan.dataset,
                "sha256": plan.dataset_sha256,
                "licence": licence or "not declared",
                "source": plan.origin.source if plan.origin else None,
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
