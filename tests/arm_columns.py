"""Builds the stored calls and replies of arms, as the checks of runs read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs
from pytest_crucible.records import Arm, Draws, Sample
from pytest_crucible.records.calls import Answerer, CallColumns, ReplyColumns


def arm_columns(
    name: str,
    texts: Sequence[str],
    *,
    repeats: int = 1,
    parameters: dict[str, Any] | None = None,
    own: Sequence[dict[str, Any] | None] = (),
    model: str | Sequence[str] = "",
    settings: dict[str, Any] | None = None,
    finishes: Sequence[str] = (),
    requests: Sequence[int] = (),
    **arm: Any,
) -> ArmColumns:
    """Return an arm whose replies are these texts, `repeats` to each sample, one call each.

    `own` are the parameters that the test gives to each call; None uses those of the adapter.
    """
    count = len(texts)
    units = {
        "positions": [row // repeats for row in range(count)],
        "repeats": [row % repeats for row in range(count)],
    }
    models = [model] * count if isinstance(model, str) else model
    return ArmColumns(
        arm=Arm(
            name=name,
            role="candidate",
            identity=name,
            parameters=parameters or {},
            settings=settings or {},
            **{"adapter": f"openai:{name}", **arm},
        ),
        calls=CallColumns(
            **units,
            calls=[1] * count,
            requests=requests or [1] * count,
            members=[""] * count,
            forms=[None] * count,
            parameters=["" if each is None else json.dumps(each) for each in own or [None] * count],
            texts=texts,
            answered_by=[Answerer(each) if each else None for each in models],
            cached=[None] * count,
            as_before=[None] * count,
            finishes=finishes or ["stop"] * count,
        ),
        replies=ReplyColumns(**units, texts=texts, finishes=finishes or ["stop"] * count, failures=[""] * count),
    )


def ensemble_columns(
    name: str, members: Mapping[str, Sequence[str]], *, model: Mapping[str, str | Sequence[str]]
) -> ArmColumns:
    """Return an ensemble whose members reply these texts, one to each sample; its own reply is that of the first."""
    parts = [arm_columns(name, next(iter(members.values())), model=name, members=tuple(members))]
    parts += [arm_columns(member, texts, model=model[member]) for member, texts in members.items()]
    calls = {
        each.name: [value for part in parts for value in getattr(part.calls, each.name)] for each in fields(CallColumns)
    }
    calls["members"] = [member for member, part in zip(("", *members), parts, strict=True) for _ in part.calls.texts]
    return replace(parts[0], calls=CallColumns(**calls))


class StoredTexts:
    """The inputs of the samples, and what was sent: a document, where there is one, before the input."""

    def __init__(self, inputs: Sequence[Any], documents: Sequence[str]) -> None:
        self._inputs, self._documents = inputs, documents

    def long_texts(self, keys: Collection[bytes]) -> dict[bytes, str]:
        return {}

    def samples(self, positions: Sequence[int]) -> dict[int, Sample]:
        return {k: Sample(id=str(k), input=self._inputs[k]) for k in positions if k < len(self._inputs)}

    def first_prompts(self, forms: Mapping[int, int | None]) -> dict[int, tuple[Any, Any]]:
        return {k: ([{"role": "user", "content": self._documents[k]}], None) for k in forms if k < len(self._documents)}


def check_inputs(
    *arms: ArmColumns,
    inputs: Sequence[Any] = (),
    documents: Sequence[str] = (),
    draws: Draws | None = None,
    **section: Any,
) -> CheckInputs:
    """Return the inputs of checks on these arms, the candidate first."""
    plan = SimpleNamespace(
        arms=[each.arm for each in arms],
        candidate=arms[0].arm,
        contrasts=(),
        variants=(),
        targets=[SimpleNamespace(metric=name) for name in section.get("scores", ())],
        draws=lambda number: draws or Draws(),
        arms_differ_in=section.pop("arms_differ_in", ()),
        arm_prompts={},
        features={},
        is_imported=section.pop("is_imported", False),
    )
    fields: dict[str, Any] = {
        "plan": plan,
        "stored": StoredTexts(inputs, documents),
        "scores": {},
        "facts": {},
        "groups": [None] * (1 + max((max(arm.replies.positions, default=0) for arm in arms), default=0)),
        **section,
    }
    return CheckInputs(section=SimpleNamespace(**fields), arms=arms)  # type: ignore[arg-type]  # the parts that checks read
