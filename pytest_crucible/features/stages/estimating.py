"""Estimates a run before it begins (--crucible-estimate): tests run up to their first request, and nothing is sent or stored."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.backends.context import UnsentRequest
from pytest_crucible.backends.spending import Spending
from pytest_crucible.backends.stack import NotSent
from pytest_crucible.features.stages.definition import FIRST_STAGE, STAGES, stage_number
from pytest_crucible.features.stages.forecasts import (
    ArmEstimate,
    Forecast,
    PlannedRequest,
    UnsentReply,
    beyond,
    ends_early,
    estimate_arm,
    estimate_as_before,
    estimate_further,
    estimate_judge,
    predict_total,
    sum_amounts,
    whole_amounts,
)
from pytest_crucible.features.stages.looks import stage_positions
from pytest_crucible.metrics.models.scorers import judge
from pytest_crucible.plan.arms import OpenUnits
from pytest_crucible.records import JUDGE, Outcome, Plan, Unit
from pytest_crucible.records.outcomes import BLOCKED
from pytest_crucible.records.serialize import canonical
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.sample.engine import Progress, run_units
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.session.call import Call
from pytest_crucible.session.experiment import Experiment, ExperimentEstimate, HelperEstimate, SessionEstimate
from pytest_crucible.session.run_entry import find_stored_replies, reuse_lines
from pytest_crucible.stats.number_format import dollars, quantity, seconds, three_digits
from pytest_crucible.store.past_usage import judge_requests_of, judges_of, past_usage
from pytest_crucible.store.reused_outcomes import units_to_copy
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


Place = tuple[str, str, str, int]
"""Nodeid, arm, sample and repeat."""


class EstimatePlugin:
    """A pytest plugin, registered when a session estimates: estimates its experiments, one after the other."""

    def __init__(self, session: CrucibleSession) -> None:
        self._session = session
        self._settings = session.settings
        self._estimates: list[ArmEstimate] = []
        self._repeated: list[str] = []
        """Lines on stored replies that may be requested again."""
        self._unsent: defaultdict[Place, list[UnsentRequest]] = defaultdict(list)

    @property
    def _store(self) -> RunStore:
        return self._session.resources.store

    def add_request(self, unsent: UnsentRequest) -> None:
        """Receive a request that would be sent."""
        request = unsent.request
        self._unsent[request.experiment, request.arm, request.sample, request.repeat].append(unsent)

    def estimate(self, item: pytest.Function, experiment: Experiment) -> None:
        """Estimate an experiment, after those that serve it."""
        estimate = ExperimentEstimate(item, experiment)
        self._session.config.hook.pytest_crucible_estimate(estimate=estimate)
        for helper in estimate.helpers:
            self._estimate(item, helper.experiment, helper)
        self._estimate(item, estimate.experiment)

    def _estimate(self, item: pytest.Function, experiment: Experiment, helper: HelperEstimate | None = None) -> None:
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
                past=past_usage(self._store, plan.nodeid, arm.name),
                concurrency=self._settings.concurrency,
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
        judges = [self._estimate_judge(plan, judge, new) for judge in self._judges(plan)]
        share = helper.least_share if helper else least_share(plan, len(positions or experiment.dataset.samples))
        self._estimates += [ends_early(estimate, share) for estimate in (*arms, *judges)]
        if experiment.sends_requests:
            self._repeated += reuse_lines(lambda: self._store, self._settings, plan)

    def _as_before(self, nodeid: str, arm: str, replies: int) -> ArmEstimate:
        """Return the estimate of a number of replies, from the latest earlier run alone."""
        return estimate_as_before(
            nodeid, arm, replies, past_usage(self._store, nodeid, arm), self._settings.concurrency
        )

    def _judges(self, plan: Plan) -> list[str]:
        """Return the judges that earlier runs have queried, and the one that the metrics will query."""
        configured = judge() if plan.judge_requests else None
        return sorted({*judges_of(self._store, plan.nodeid), *([f"{JUDGE}{configured.name}"] if configured else ())})

    def _estimate_judge(self, plan: Plan, arm: str, replies: int) -> ArmEstimate:
        """Estimate the requests to a judge; an earlier run may have had another number of votes."""
        past = past_usage(self._store, plan.nodeid, arm)
        before = judge_requests_of(self._store, past.run, plan.nodeid) if past else 0
        return estimate_judge(
            self._as_before(plan.nodeid, arm, replies), a_reply=plan.judge_requests, before=before, is_new=past is None
        )

    def _positions(self, experiment: Experiment) -> list[int] | None:
        """Return the samples that the run would send with --crucible-until; None for all of them."""
        plan, until = experiment.plan, self._settings.option("until")
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
                source = find_stored_replies(self._store, self._settings, plan, number, variant, run="")
                copied = (
                    set()
                    if source is None
                    else units_to_copy(self._store, source[0], draws, tried=self._settings.resume)
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
        plan, threads = experiment.plan, DaemonThreads(self._settings.concurrency)
        call = Call(item, experiment, self._session.resources.loop, threads)
        open_units = OpenUnits(plan, list(done), self._settings.seed, order=positions, twins=experiment.twins)
        outcomes: list[Outcome] = []
        total = sum(sum(open_units.count_open(number)) for number in range(plan.rounds))

        def units() -> Iterator[Unit]:
            for number in range(plan.rounds):
                yield from open_units.of_round(number)

        try:
            self._session.resources.loop.submit(
                run_units(
                    units(),
                    lambda unit: _call_until_request(call, unit),
                    outcomes.append,
                    concurrency=self._settings.concurrency,
                    arms=tuple(arm.name for arm in plan.arms),
                    planned=[total],
                    progress=Progress(total=total),
                )
            ).result()
        finally:
            threads.shutdown()
        return outcomes

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show the estimate; the session fails where a budget may be too little."""
        config, collection, messages = self._session.config, self._session.collection, self._session.messages
        if messages.errors or not collection.plans():
            return
        budgets = too_little(self._session.resources.shared.spending, self._estimates)
        lines = estimate_lines(self._estimates, sum_amounts(self._estimates), budgets)
        whole = SessionEstimate(collection.opened_arms, self._settings, _forecast_seconds)
        config.hook.pytest_crucible_estimate_session(estimate=whole, config=config)
        repeated = (f"  {line}" for line in self._repeated)
        messages.lines += [*lines, *whole.lines, *repeated, *self._early_ends()]
        if any(over for *_, over in budgets):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _early_ends(self) -> Iterator[str]:
        """Yield the reasons why the run may cost less than the estimates, whose intervals include that."""
        if self._settings.option("stop"):
            yield "  at most so much, since --crucible-stop ends an experiment when its verdicts are settled"
        if self._settings.option("stages"):
            yield "  at most so much, since the session may end after a stage"


async def _call_until_request(call: Call, unit: Unit) -> Outcome:
    """Call the test function; its requests until it ends, or fails, count."""
    outcome = Outcome(unit)
    bound = call.bind(outcome)
    # A failure without a reply does not matter to an estimate, and the run will report it; a group comes from a test's own tasks.
    with contextlib.suppress(Exception, NotSent, BaseExceptionGroup, pytest.skip.Exception, pytest.fail.Exception):
        if bound.is_async:
            await bound(**bound.arguments)
        else:
            await asyncio.to_thread(bound, **bound.arguments)
    await bound.unit.close()
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
        text="" if price is None or price.cached is None else text,
        cached_usd=None if price is None or price.cached is None else price.cached / 1e6,
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


def _forecast_seconds(earlier: Sequence[float], count: int) -> str:
    return forecast_text(predict_total(earlier, count), seconds)


HEADS = ("", "replies", "stored", "cached", "requests", "tokens", "cost", "time")


def estimate_lines(
    estimates: Sequence[ArmEstimate],
    total: Mapping[str, Forecast | None],
    budgets: Sequence[tuple[str, str, Sequence[str]]],
) -> Iterator[str]:
    """Yield the lines of an estimate.

    `budgets` has (nodeid, or empty for the run; text; units in which the budget may not be enough).
    """
    yield "estimate, with intervals of 90 %: nothing was sent"
    for nodeid in dict.fromkeys(estimate.nodeid for estimate in estimates):
        of_experiment = [estimate for estimate in estimates if estimate.nodeid == nodeid]
        yield nodeid
        yield from aligned_lines([HEADS, *map(_row, of_experiment)], right=(1, 2, 3))
        yield from (f"  {estimate.arm}: {estimate.amounts.basis}" for estimate in of_experiment)
        for estimate in of_experiment:
            if estimate.blocked:
                yield f"  {estimate.arm}: {quantity(estimate.blocked, 'reply')} blocked by a guard, without a request"
        for pending in dict.fromkeys(estimate.pending for estimate in of_experiment if estimate.pending):
            yield f"  {', '.join(each.arm for each in of_experiment if each.pending == pending)}: {pending}"
    sums = (
        f"{head} {forecast_text(total[unit], FORMATS[unit])}" for head, unit in zip(HEADS[4:], FORMATS, strict=True)
    )
    yield f"all      {', '.join(sums)}"
    yield from (_budget_line(*budget) for budget in budgets)


def _row(estimate: ArmEstimate) -> list[str]:
    amounts = estimate.amounts
    counts = (estimate.to_send + estimate.stored + estimate.cached, estimate.stored, estimate.cached - estimate.blocked)
    return [
        estimate.arm,
        *(f"{count:,}" for count in counts),
        *(forecast_text(getattr(amounts, unit), form) for unit, form in FORMATS.items()),
    ]


def forecast_text(forecast: Forecast | None, form: Callable[[float], str]) -> str:
    """Return an amount with its interval; `unknown` for None."""
    if forecast is None:
        return "unknown"
    if forecast.low == forecast.high:
        return form(forecast.value)
    return f"{form(forecast.value)} [{form(forecast.low)}, {form(forecast.high)}]"


def _count_text(value: float) -> str:
    """Return a number of requests or tokens with three digits.

    >>> _count_text(164.0), _count_text(52_345.0), _count_text(1_234_567.0)
    ('164', '52.3k', '1.23M')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (unit == "M" and value >= size):
            return f"{three_digits(value / size)}{unit}"
    return f"{value:,.0f}"


FORMATS: Mapping[str, Callable[[float], str]] = {
    "requests": _count_text,
    "tokens": _count_text,
    "usd": dollars,
    "seconds": seconds,
}


def _budget_line(place: str, text: str, over: Sequence[str]) -> str:
    where = f"{place}: " if place else ""
    if not over:
        return f"budget   {where}{text}: enough"
    return f"budget   {where}{text}: may be too little ({', '.join(over)})"
