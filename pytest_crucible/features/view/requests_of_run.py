"""The requests of a run as HTML: counts and their course from the database, and for a finished run the numbers of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.features.view.site import Site
from pytest_crucible.records import ArmEvents, Plan, Row, Table, Usage, View
from pytest_crucible.records.views import Curve, LineChart
from pytest_crucible.report.pictures import waiting
from pytest_crucible.report.sections import join_views
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.runs.run_analysis import alpha_at_end
from pytest_crucible.sections import usage
from pytest_crucible.stats.number_format import dollars
from pytest_crucible.store.event_course import EventCourse, event_course
from pytest_crucible.store.events import count_events, load_budgets, load_events, lost_replies
from pytest_crucible.store.runs import RunStore

PARTS = 60
"""Points of each line over time."""
Events = Mapping[tuple[str, str], ArmEvents]


def render_counts(site: Site, run: str) -> str:
    """Return what a run has counted so far, without any percentile or interval."""
    return _render(site, run, count_events(site.store, run), [])


def render_requests(site: Site, run: str) -> str:
    """Return the counts of a finished run, and the tables on cost and latency that its report has."""
    events = load_events(site.store, run)
    alpha = alpha_at_end(site.store, run, installed_extensions(), site.store.run(run)["alpha"])
    views = [
        (plan.nodeid, usage.view(usages, ()))
        for _, plan, _ in site.store.experiments(run)
        if (usages := usage.summarize_arms(plan, _of_experiment(events, plan), alpha=alpha)) is not None
    ]
    return _render(site, run, events, views)


def _render(site: Site, run: str, events: Events, views: Sequence[tuple[str, View]]) -> str:
    plans = [plan for _, plan, _ in site.store.experiments(run)]
    many = len(plans) > 1
    course = event_course(site.store, run, PARTS)
    latencies = [
        (f"{plan.nodeid.partition('::')[2]}: {arm}" if many else arm, of_arm.latencies)
        for plan in plans
        for arm, of_arm in _of_experiment(events, plan).items()
        if of_arm.latencies
    ]
    return site.render(
        "requests_part.html.j2",
        counts=_join([(plan.nodeid, _counts(plan, events)) for plan in plans], many=many),
        sections=[join_views("usage", views, many=many)] if views else [],
        notes=[note.text for _, view in views for note in view.notes],
        lines=list(_lines(course)) if course else [],
        waiting=waiting(latencies),
        arms=[name for name, _ in latencies],
        lost=_lost(site.store, run),
        budgets=load_budgets(site.store, run),
        many=many,
    )


def _of_experiment(events: Events, plan: Plan) -> dict[str, ArmEvents]:
    """Return the events of an experiment by arm, in the order of the plan; then those of judges."""
    names = [arm.name for arm in plan.arms]
    helpers = sorted(arm for nodeid, arm in events if nodeid == plan.nodeid and arm not in names)
    return {arm: events[plan.nodeid, arm] for arm in (*names, *helpers) if (plan.nodeid, arm) in events}


HEADS = (
    *("arm", "requests", "answered", "failed", "cancelled", "retried", "hedged", "hedges won", "from the cache"),
    *("rate limit waits", "tokens in", "out", "cost"),
)


def _counts(plan: Plan, events: Events) -> View:
    rows = []
    for arm, of_arm in _of_experiment(events, plan).items():
        counted = usage.summarize_usage(arm, ArmEvents(counts=of_arm.counts), level=1.0)
        rows.append(Row(cells=tuple(_cells(counted, of_arm)), below=", ".join(_failures(counted))))
    return View(title="Requests", tables=(Table(title="Requests", heads=HEADS, rows=tuple(rows), numbers=HEADS[1:]),))


def _cells(counted: Usage, events: ArmEvents) -> Iterator[str]:
    waits = sum(count.n for count in events.counts if count.name == "limiter.wait")
    numbers = (
        *(counted.sent, counted.answered, sum(counted.failed.values()), counted.cancelled, counted.retried),
        *(counted.hedged, counted.hedges_won, counted.cached, waits, counted.input_tokens, counted.output_tokens),
    )
    yield counted.arm
    # A column without any number is dropped.
    yield from (f"{number:,}" if number else "" for number in numbers)
    yield "" if counted.cost_usd is None else f"{'>= ' if counted.unpriced else ''}{dollars(counted.cost_usd)}"


def _failures(counted: Usage) -> Iterator[str]:
    yield from (f"{kind} x {count:,}" for kind, count in sorted(counted.failed.items()))


def _join(views: Sequence[tuple[str, View]], *, many: bool) -> Table | None:
    """Return the counts of all experiments as one table; None without any."""
    tables = join_views("requests", views, many=many).tables if views else ()
    return tables[0] if tables else None


def _lines(course: EventCourse) -> Iterator[LineChart]:
    """Yield the course of the run's requests, and of what they waited for."""
    note = f"one point for each {course.width:.3g} s"
    rates = ("answered", "failed", "retried", "hedged", "cached")
    means = {"latency": "reply", "first_token": "first token", "waited": "rate limit wait"}
    of_rates = [Curve(label=name, points=tuple(_rates(course, name))) for name in rates]
    of_means = [Curve(label=label, points=tuple(_means(course, name))) for name, label in means.items()]
    for title, curves in (
        ("Requests per second", of_rates),
        ("Mean latency and waits, in seconds", of_means),
    ):
        lines = tuple(curve for curve in curves if any(value for _, value in curve.points))
        if lines:
            yield LineChart(title=title, across="seconds since the first", lines=lines, note=note)


def _rates(course: EventCourse, name: str) -> Iterator[tuple[float, float]]:
    """Yield events per second; 0 where nothing happened."""
    counts = {part.number: getattr(part, name) for part in course.parts}
    yield from ((k * course.width, counts.get(k, 0) / course.width) for k in range(max(counts) + 1))


def _means(course: EventCourse, name: str) -> Iterator[tuple[float, float]]:
    means = ((part.number, getattr(part, name)) for part in course.parts)
    yield from ((number * course.width, mean) for number, mean in means if mean is not None)


def _lost(store: RunStore, run: str) -> Table | None:
    """Return the lost replies by reason; None without any."""
    rows = tuple(
        Row(cells=(arm, reason, f"{number:,}", (detail or "").partition("\n")[0]), experiment=nodeid)
        for nodeid, arm, reason, detail, number in lost_replies(store, run)
    )
    heads = ("arm", "lost by", "replies and scores", "detail")
    return Table(title="Lost replies", heads=heads, rows=rows, numbers=heads[2:3]) if rows else None
