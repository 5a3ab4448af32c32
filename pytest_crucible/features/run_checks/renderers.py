"""Renderers: whether a checkpoint is sampled from in the chat format that it was trained in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_crucible.features.run_checks.finding import CheckInputs, Finding
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.plan import PlanValue

if TYPE_CHECKING:
    from pytest_crucible.adapters.opened_arm import OpenedArm
    from pytest_crucible.session.collect import ExperimentCollection


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderers:
    """The names of an arm's renderers; empty where they are not known."""

    training: str
    """That of the training, in the metadata of the checkpoint."""
    sampling: str
    """That of the adapter's setting `renderer`."""


RENDERERS = PlanValue[Mapping[str, Renderers]]("renderers", Mapping[str, Renderers], {})


def record_renderers(collection: ExperimentCollection) -> None:
    """Keep the renderers in the plan of each experiment whose arms name one."""
    for nodeid, experiment in collection.experiments.items():
        by_arm = {opened.arm.name: _of(opened) for opened in experiment.opened_arms}
        named = {arm: renderers for arm, renderers in by_arm.items() if renderers.training or renderers.sampling}
        if named:
            collection.experiments[nodeid] = replace(experiment, plan=RENDERERS.on(experiment.plan, named))


def _of(opened: OpenedArm) -> Renderers:
    # Imported here: a session without checkpoints of a service has no backends to look into.
    from pytest_crucible.backends.protocol import find_innermost

    own = "" if opened.adapter is None else str(opened.adapter.options.get("renderer", ""))
    training = "" if opened.backend is None else str(getattr(find_innermost(opened.backend), "renderer", ""))
    return Renderers(training=training, sampling=own)


def check_renderers(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the renderers of arms, where a checkpoint or an adapter names one."""
    by_arm = RENDERERS.of(inputs.plan)
    of_arms = [by_arm.get(columns.arm.name) for columns in inputs.arms]
    problems = [
        f"{columns.arm.name} was trained with renderer {renderers.training!r} and is sampled from with "
        f"{renderers.sampling!r}: use the renderer of its training, or correct `renderer` of the adapter"
        for columns, renderers in zip(inputs.arms, of_arms, strict=True)
        if renderers and renderers.training and renderers.sampling not in ("", renderers.training)
    ]
    yield Finding(
        check="renderer",
        cells=tuple("" if renderers is None else _cell(renderers) for renderers in of_arms),
        differs="another renderer" if problems else "",
        problem="; ".join(problems),
        document=[None if each is None else {"training": each.training, "sampling": each.sampling} for each in of_arms],
    )


def _cell(renderers: Renderers) -> str:
    training, sampling = renderers.training or "unknown", renderers.sampling or "not declared"
    return training if training == sampling else f"{training} in training, {sampling} here"
