"""Results of a finished run as parts of its page: what its report has, what each verdict is made of, and the trainings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.features.view.site import Site
from pytest_crucible.records import Analysis, Measure, Plan, Run
from pytest_crucible.report.html import page_values
from pytest_crucible.report.model import build_report
from pytest_crucible.report.sections import facts_section, worst_first
from pytest_crucible.runs.load_run import load_run, load_verdicts
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.report_facts import add_run_facts, add_verdict_facts
from pytest_crucible.runs.reporters import chapters
from pytest_crucible.runs.run_store import project_root


def render_results(site: Site, run: str) -> str:
    """Return verdicts, estimates, sections and methods of a run as HTML: what its report has."""
    return _render_results(site, run)


def render_everything(site: Site, run: str) -> str:
    """Return the results of a run with what each verdict is made of in its place, for a page without a script."""
    return _render_results(site, run, **_explain(site, run))


def _render_results(site: Site, run: str, **explained: Any) -> str:
    loaded = worst_first(load_run(site.store, run))
    hook = program_plugins().hook
    numbers = {plan.nodeid: number for number, (_, plan, _) in enumerate(site.store.all_experiments(run), start=1)}
    with chapters(loaded) as chapters_of_run:
        values = page_values(build_report(add_run_facts(loaded, hook)), chapters_of_run)
    return site.render(
        "results.html.j2",
        run_id=run,
        verdict_ids=verdict_ids(loaded),
        explains=bool(hook.pytest_crucible_verdict_views.get_hookimpls()),
        experiment_numbers=numbers,
        lists={key: state for analysis in loaded.experiments for key, state in _sample_lists(analysis)},
        **{**values, **explained},
    )


def _sample_lists(analysis: Analysis) -> Iterator[tuple[tuple[str, str], dict[str, str | int]]]:
    """Yield the samples to look at first for each target and comparison, as the address of their list has it."""
    plan = analysis.plan
    numbers = {arm.name: number for number, arm in enumerate(plan.arms)}
    for comparison in analysis.comparisons:
        contrast = comparison.contrast
        state = {**_metric_state(plan, contrast), "show": "worse", "baseline": numbers[contrast.baseline]}
        yield (plan.nodeid, contrast.subject(comparison.candidate)), state
    for result in analysis.targets:
        yield (plan.nodeid, result.target.text), {**_metric_state(plan, result.target), "sort": "worst"}


def _metric_state(plan: Plan, measure: Measure) -> dict[str, str | int]:
    """Return the metric of a list of samples; none for a term, whose scores samples do not have."""
    is_listed = any(facts.name == measure.metric and not facts.is_part for facts in plan.metrics)
    return {"metric": measure.metric} if is_listed else {}


def render_explanations(site: Site, run: str) -> str:
    """Return what each verdict of a run is made of as HTML, and what features say of it.

    Its fragility is computed by deciding it again with other answers, which takes longer than all else.
    """
    return site.render("explanations.html.j2", **_explain(site, run))


def _explain(site: Site, run: str) -> dict[str, Any]:
    loaded = worst_first(load_verdicts(site.store, run))
    hook = program_plugins().hook
    views = hook.pytest_crucible_verdict_views(store=site.store, run=loaded) or {}
    ids = verdict_ids(loaded)
    return {
        "explanations": {ids[key]: view for key, view in views.items()},
        "section": facts_section(add_verdict_facts(loaded, hook)),
        "many": len(loaded.experiments) > 1,
    }


def verdict_ids(run: Run) -> dict[tuple[str, str], str]:
    """Return the id of the element that explains each verdict, by its experiment and subject."""
    return {
        (verdict.nodeid, verdict.subject): f"verdict-{number}" for number, verdict in enumerate(run.verdicts, start=1)
    }


def render_trainings(site: Site, run: str) -> str:
    """Return loss and gradient norm by step of the trainings behind a run; a sentence where nothing can say it."""
    where = site.store.where
    folder = files_folder(project_root() if "://" in where else Path(), where)
    view = program_plugins().hook.pytest_crucible_training_view(store=site.store, run=run, folder=folder)
    return site.render("training_part.html.j2", view=view, many=False)
