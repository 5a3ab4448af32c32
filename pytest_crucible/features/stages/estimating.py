"""Estimates a run before it begins (--crucible-estimate): tests run up to their first request, and nothing is sent or stored."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.backends.not_sent import NotSent, UnsentRequest
from pytest_crucible.backends.spending import Spending
from pytest_crucible.features.stages.arm_cost import (
    PlannedRequest,
    UnsentReply,
    beyond,
    estimate_arm,
    estimate_as_before,
    sum_amounts,
)
from pytest_crucible.features.stages.definition import stage_number
from pytest_crucible.features.stages.estimate_lines import estimate_lines
from pytest_crucible.features.stages.forecasts import ArmEstimate
from pytest_crucible.features.stages.open_cost import ends_early, estimate_further, whole_amounts
from pytest_crucible.features.stages.records import FIRST_STAGE, STAGES
from pytest_crucible.features.stages.stage_run import stage_positions
from pytest_crucible.plan.arms import OpenUnits
from pytest_crucible.records import Outcome, Plan, Unit
from pytest_crucible.records.outcomes import BLOCKED
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.settings import Settings
from pytest_crucible.sample.background_loop import BackgroundLoop
from pytest_crucible.sample.engine import Progress, run_units
from pytest_crucible.sample.threads import DaemonThreads
from pytest_crucible.session.call import Call
from pytest_crucible.session.experiment import Experiment, HelperEstimate
from pytest_crucible.session.run_entry import find_stored_replies
from pytest_crucible.store.past_usage import judges_of, past_usage
from pytest_crucible.store.reused_outcomes import units_to_copy
from pytest_crucible.store.runs import RunStore

Place = tuple[str, str, str, int]
"""Nodeid, arm, sample and repeat."""


@dataclass
class Estimator:
    """Estimates the experiments of a session, one after the other."""

    settings: Settings
    store: RunStore
    loop: BackgroundLoop
    estimates: list[ArmEstimate] = field(default_factory=list)
    _unsent: defaultdict[Place, list[UnsentRequest]] = field(default_factory=lambda: defaultdict(list))

    def add_request(self, unsent: UnsentRequest) -> None:
        """Receive a request that would be sent."""
        request = unsent.request
        self._unsent[request.experiment, request.arm, request.sample, request.repeat].append(unsent)

    def __call__(
        self,
        item: pytest.Function,
        experiment: Experiment,
        helper: HelperEstimate | None = None,
    ) -> None:
        """Estimate one experiment; `helper` has what is known of one that serves another."""
        plan, positions = experiment.plan, self._positions(experiment)
        done = self._stored_units(experiment, positions)
        closed = [
            units | _unsent_units(plan, arm.name, helper.unsent if helper else {})
            for units, arm in zip(done, plan.arms, strict=True)
        ]
        outcomes = self._ask(item, experiment, closed, positions)
        arms = [
            estimate_arm(
                plan.nodeid,
                arm.name,
                stored=len(done[number]),
                replies=[
                    self._describe_outcome(experiment, outcome) for outcome in outcomes if outcome.unit.arm == number
                ],
                past=past_usage(self.store, plan.nodeid, arm.name),
                concurrency=self.settings.concurrency,
                pending=next(
                    (each.preparation.announcement for each in find_pending([experiment.opened_arms[number]])), ""
                ),
            )
            for number, arm in enumerate(plan.arms)
            if arm.stored_run is None
        ]
        if helper is not None and helper.further:
            unstored = [
                whole_amounts(arm) or self._as_before(plan.nodeid, arm.arm, arm.stored + arm.cached).amounts
                for arm in arms
            ]
            arms.append(estimate_further(plan.nodeid, helper.family, arms, unstored, helper.further))
        new = sum(estimate.to_send for estimate in arms)
        judges = [self._as_before(plan.nodeid, judge, new) for judge in judges_of(self.store, plan.nodeid)]
        share = helper.least_share if helper else least_share(plan, len(positions or experiment.dataset.samples))
        self.estimates += [ends_early(estimate, share) for estimate in (*arms, *judges)]

    def _as_before(self, nodeid: str, arm: str, replies: int) -> ArmEstimate:
        """Return the estimate of a number of replies, from the latest earlier run alone."""
        return estimate_as_before(nodeid, arm, replies, past_usage(self.store, nodeid, arm), self.settings.concurrency)

    def lines(self, spending: Spending) -> tuple[list[str], bool]:
        """Return the lines that show the estimates, and whether some budget may be too little."""
        budgets = too_little(spending, self.estimates)
        lines = list(estimate_lines(self.estimates, sum_amounts(self.estimates), budgets))
        return lines, any(over for *_, over in budgets)

    def _positions(self, experiment: Experiment) -> list[int] | None:
        """Return the samples that the run would send with --crucible-until; None for all of them."""
        plan, until = experiment.plan, self.settings.option("until")
        if until is None or not STAGES.of(plan):
            return None
        last = stage_number(STAGES.of(plan), until, f"--crucible-until={until}")
        return [] if FIRST_STAGE.of(plan) > last else stage_positions(plan, experiment.dataset.samples, last)

    def _stored_units(self, experiment: Experiment, positions: Sequence[int] | None) -> list[set[tuple[int, int]]]:
        """Return, by arm, the units whose stored replies the run would use."""
        plan = experiment.plan
        done: list[set[tuple[int, int]]] = []
        for number, draws in enumerate(experiment.draws):
            units: set[tuple[int, int]] = set()
            for variant in plan.variant_numbers:
                source = find_stored_replies(self.store, self.settings, plan, number, variant, run="")
                copied = (
                    set() if source is None else units_to_copy(self.store, source[0], draws, tried=self.settings.resume)
                )
                units |= {(position, draws.place(variant, repeat)) for position, repeat in copied}
            done.append(units)
        if positions is None:
            return done
        sent = set(positions)
        return [{(position, place) for position, place in units if position in sent} for units in done]

    def _describe_outcome(self, experiment: Experiment, outcome: Outcome) -> UnsentReply:
        plan, unit = experiment.plan, outcome.unit
        place = (
            plan.nodeid,
            plan.arms[unit.arm].name,
            experiment.dataset.samples[unit.position].id,
            experiment.repeat(unit),
        )
        late = experiment.late_variants.get(experiment.twin(unit))
        # The function is run up to its first request, which a search or a certificate repeats with other texts.
        times = 1 if late is None else late.requests
        return UnsentReply(
            len(outcome.calls) * times,
            tuple(map(_planned_request, self._unsent.pop(place, ()))) * times,
            any(call.reply is not None and call.reply.finish == BLOCKED for call in outcome.calls),
        )

    def _ask(
        self,
        item: pytest.Function,
        experiment: Experiment,
        done: Sequence[set[tuple[int, int]]],
        positions: Sequence[int] | None,
    ) -> list[Outcome]:
        """Run each unit that is not stored up to its first request; return the outcomes."""
        plan, threads = experiment.plan, DaemonThreads(self.settings.concurrency)
        call = Call(item, experiment, self.loop, threads)
        open_units = OpenUnits(plan, list(done), self.settings.seed, order=positions, twins=experiment.twins)
        outcomes: list[Outcome] = []
        total = sum(sum(open_units.count_open(number)) for number in range(plan.rounds))

        def units() -> Iterator[Unit]:
            for number in range(plan.rounds):
                yield from open_units.of_round(number)

        try:
            self.loop.submit(
                run_units(
                    units(),
                    lambda unit: _call_until_request(call, unit),
                    outcomes.append,
                    concurrency=self.settings.concurrency,
                    arms=tuple(arm.name for arm in plan.arms),
                    planned=[total],
                    progress=Progress(total=total),
                )
            ).result()
        finally:
            threads.shutdown()
        return outcomes


async def _call_until_request(call: Call, unit: Unit) -> Outcome:
    """Call the test function; its requests until it ends, or fails, count."""
    outcome = Outcome(unit)
    arguments = call.arguments(outcome)
    # A failure without a reply does not matter to an estimate, and the run will report it; a group comes from a test's own tasks.
    with contextlib.suppress(Exception, NotSent, BaseExceptionGroup, pytest.skip.Exception, pytest.fail.Exception):
        if call.experiment.is_async:
            await call.function(**arguments)
        else:
            await asyncio.to_thread(call.function, **arguments)
    return outcome


def _unsent_units(plan: Plan, arm: str, unsent: Mapping[str, frozenset[int]]) -> set[tuple[int, int]]:
    size = plan.draws([each.name for each in plan.arms].index(arm)).size
    return {(position, place) for position in unsent.get(arm, ()) for place in range(size)}


def least_share(plan: Plan, samples: int) -> float:
    """Return the share of an experiment's samples after which the scores may end it; 1 if they cannot."""
    if plan.look_alpha is not None:
        return 1 / samples
    if STAGES.of(plan) and FIRST_STAGE.of(plan):
        # The session may end before it begins.
        return 0.0
    # Within the first stage only a target that could hardly be met from the beginning gets out of reach.
    return min((STAGES.of(plan)[0].samples or samples) / samples, 1.0) if STAGES.of(plan) and samples else 1.0


def _planned_request(unsent: UnsentRequest) -> PlannedRequest:
    request, price = unsent.request, unsent.price
    limit = request.parameters.get("max_tokens") or request.parameters.get("max_completion_tokens")
    text = request.input if isinstance(request.input, str) else canonical(request.input)
    return PlannedRequest(
        characters=len(text),
        max_tokens=float(limit) if isinstance(limit, int) else None,
        input_usd=None if price is None else price.of(1.0, 0.0),
        output_usd=None if price is None else price.of(0.0, 1.0),
    )


def too_little(spending: Spending, estimates: Sequence[ArmEstimate]) -> list[tuple[str, str, list[str]]]:
    """Return nodeid (empty: the run), text, and the units in which each budget may be too little."""
    budgets = {**spending.budgets, **({} if spending.run is None else {"": spending.run})}
    return [
        (
            place,
            budget.text,
            beyond(
                estimates, place, {unit: most for unit, most in budget.limit._asdict().items() if math.isfinite(most)}
            ),
        )
        for place, budget in budgets.items()
    ]
