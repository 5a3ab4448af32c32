"""The cost of an explanation's requests, before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.spending import ANSWER_TOKENS, CHARACTERS_A_TOKEN, Metered, Price
from pytest_crucible.features.explanation.records import Explanation
from pytest_crucible.features.explanation.segments import Prompt
from pytest_crucible.stats.number_format import dollars
from pytest_crucible.store.past_usage import past_usage

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import Experiment
    from pytest_crucible.session.session import CrucibleSession


def cost_text(
    session: CrucibleSession, experiment: Experiment, prompts: Sequence[Prompt], explanation: Explanation
) -> str:
    """Return what the planned requests of one sample cost, if nothing is cached."""
    costs = [_arm_cost(session, experiment, number, prompt, explanation) for number, prompt in enumerate(prompts)]
    priced = [cost for cost in costs if cost is not None]
    return f"about {dollars(sum(priced))}" if len(priced) == len(costs) else "cost unknown (no price)"


def _arm_cost(
    session: CrucibleSession, experiment: Experiment, number: int, prompt: Prompt, explanation: Explanation
) -> float | None:
    """Return dollars; None if the price of a model is not known."""
    opened, sets = experiment.opened_arms[number], explanation.sets
    price = _find_price(opened.backend)
    if price is None:
        return None
    lengths = [segment.end - segment.start for segment in prompt.segments]
    fixed = sum(len(text or "") for _, text in prompt.messages) - sum(lengths)
    characters = sum(fixed + sum(length for k, length in enumerate(lengths) if mask >> k & 1) for mask in sets.masks)
    written = _answer_tokens(session, experiment.plan.nodeid, opened.arm.name, opened.arm.parameters.get("max_tokens"))
    usd = price.of(characters / CHARACTERS_A_TOKEN, written * len(sets.masks)) or 0.0
    return usd * sets.repeats


def _find_price(backend: Backend | None) -> Price | None:
    """Return the price of a model behind its wrappers."""
    while backend is not None and not isinstance(backend, Metered):
        backend = getattr(backend, "inner", None)
    return None if backend is None else backend.price


def _answer_tokens(session: CrucibleSession, nodeid: str, arm: str, limit: object) -> float:
    """Return the mean length of earlier replies, else the limit or a guess."""
    past = past_usage(session.resources.store, nodeid, arm)
    lengths = [reply.output_tokens for reply in (past.replies if past else ()) if reply.output_tokens is not None]
    if lengths:
        return fmean(lengths)
    return float(limit) if isinstance(limit, int) else ANSWER_TOKENS
