"""The hooks of stages, of the early stop and of estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.features.stages.definition import Stage
    from pytest_crucible.features.stages.estimating import EstimatePlugin
    from pytest_crucible.features.stages.stage_plugin import StagePlugin
    from pytest_crucible.records import Plan
    from pytest_crucible.records.settings import Settings
    from pytest_crucible.runs.run_analysis import RunAnalysis
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Announcement, ExperimentDraft, ExperimentRun
    from pytest_crucible.session.session import CrucibleSession

STAGES_PLUGIN, ESTIMATE_PLUGIN = "crucible-staged-items", "crucible-estimates"
"""The names of the plugins of a session with stages, and of one that estimates."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "stopping": Placed(
            50, "pytest_crucible.features.stages.stop_section", lambda plan: plan.look_alpha is not None
        ),
        "stages": Placed(60, "pytest_crucible.features.stages.section", lambda plan: "stages" in plan.features),
    }


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Register the plugin of a session with stages, and that of a session that estimates."""
    plugins = session.config.pluginmanager
    if session.settings.option("stages"):
        from pytest_crucible.features.stages.stage_plugin import open_stages

        plugins.register(open_stages(session), STAGES_PLUGIN)
    if session.settings.option("estimate"):
        from pytest_crucible.features.stages.estimating import EstimatePlugin

        if session.is_worker:
            sentence = "--crucible-estimate sends nothing and needs no workers: leave out -n"
            session.collection.problems.append(sentence)
        estimates = EstimatePlugin(session)
        session.resources.on_unsent = estimates.add_request
        plugins.register(estimates, ESTIMATE_PLUGIN)


def pytest_crucible_session_demands(settings: Settings) -> dict[str, str]:
    """Return the stages of a session and its early stop: a candidate may meet its claims on fewer samples."""
    stages, until = settings.option("stages"), settings.option("until") or "the last"
    return {
        "early stop": "yes" if settings.option("stop") else "no",
        "stages": f"{stages}, until {until}" if stages else "",
    }


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Enter the stages of the session, and that at which the experiment begins."""
    text = draft.settings.option("stages")
    # With `-o crucible_stages=` all samples are sent at once, and the first stage of an experiment does not matter.
    if not text:
        return
    from pytest_crucible.features.stages.definition import FIRST_STAGE, STAGES, parse_stages, stage_number
    from pytest_crucible.records.plan import BEGINS_LATE

    stages, first = parse_stages(text), draft.mark.features.get("stage")
    draft.plan_value(STAGES, stages)
    if first is not None:
        number = stage_number(stages, first, f"@pytest.mark.crucible(stage={first!r})")
        draft.plan_value(FIRST_STAGE, number)
        draft.plan_value(BEGINS_LATE, stages[number].name if number else "")


def pytest_crucible_plan_session(collection: ExperimentCollection) -> None:
    """Give each plan of a session with --crucible-stop the error rate of its claims: they share alpha."""
    if not collection.settings.option("stop"):
        return
    from pytest_crucible.plan.design import look_alpha, with_looks

    alpha = look_alpha(collection.plans(), collection.settings.alpha)
    for plan in collection.plans():
        with collection.gather_errors(plan.nodeid):
            looking = with_looks(plan, alpha)
            collection.experiments[plan.nodeid] = replace(collection.experiments[plan.nodeid], plan=looking)


def pytest_crucible_announce(announcement: Announcement) -> None:
    """Show the stages, and the detectable differences of the last one."""
    for plan in announcement.plans:
        announcement.lines[plan.nodeid] += [(40, line) for line in _announcement_lines(plan)]
    if announcement.settings.option("stages"):
        from pytest_crucible.features.stages.analysis import alpha_of, count_claims
        from pytest_crucible.features.stages.definition import STAGES, StageDecision

        plans = announcement.plans
        number = max((len(STAGES.of(plan)) for plan in plans), default=0)
        last = StageDecision(stage=number - 1) if number else None
        announcement.alpha = alpha_of(last, plans, announcement.alpha)
        announcement.claims = count_claims(plans)


def _announcement_lines(plan: Plan) -> Iterator[str]:
    if plan.look_alpha is not None:
        yield "looks after every sample, and stops when all verdicts are settled (--crucible-stop)"
    if "stages" not in plan.features:
        return
    from pytest_crucible.features.stages.definition import FIRST_STAGE, STAGES

    stages = STAGES.of(plan)
    if len(stages) > 1:
        yield _stages_text(plan, stages[FIRST_STAGE.of(plan) :])


def _stages_text(plan: Plan, stages: tuple[Stage, ...]) -> str:
    """Return `stages: smoke (20), dev (100), full`, from the stage at which the experiment begins."""
    if len(stages) == 1:
        return f"begins at the last stage, {stages[0].name}"
    sizes = ", ".join(
        stage.name if stage.samples is None else f"{stage.name} ({min(stage.samples, plan.selected):,})"
        for stage in stages
    )
    return f"stages: {sizes}; the session ends when a miss is proven"


def pytest_crucible_begin(session: CrucibleSession, items: list[pytest.Item]) -> None:
    """Order the items stage by stage."""
    stages: StagePlugin | None = session.config.pluginmanager.get_plugin(STAGES_PLUGIN)
    if stages is not None:
        stages.order_items(items)


def pytest_crucible_run(run: ExperimentRun) -> bool | None:
    """Estimate the experiment, leave it to its stage, or run the stage of its item; stop early where looks are planned."""
    plugins = run.item.config.pluginmanager
    estimates: EstimatePlugin | None = plugins.get_plugin(ESTIMATE_PLUGIN)
    if estimates is not None:
        estimates.estimate(run.item, run.experiment)
        return True
    alpha = run.experiment.plan.look_alpha
    if alpha is not None:
        from pytest_crucible.features.stages.looks import StopWhenSettled

        run.rule = StopWhenSettled(alpha)
    stages: StagePlugin | None = plugins.get_plugin(STAGES_PLUGIN)
    return None if stages is None else stages.run_stage(run)


def pytest_crucible_join(session: CrucibleSession, item: pytest.Item) -> None:
    """Skip the items of joined tests where the session only estimates."""
    if session.settings.option("estimate"):
        import pytest

        pytest.skip("not run: --crucible-estimate sends nothing, and a test that joins calls its model itself")


def pytest_crucible_analyse_run(analysis: RunAnalysis) -> None:
    """Cut a run with stages to the samples that count where it ended, and share alpha between all claims."""
    if not any("stages" in plan.features for plan in analysis.plans):
        return
    from pytest_crucible.features.stages.analysis import alpha_of, count_claims, cut_at_stage, load_ending

    ending: Any = analysis.at.get("stages") or load_ending(analysis.store, analysis.run, analysis.plans)
    analysis.alpha_at_end = alpha_of(ending, analysis.plans, analysis.alpha)
    analysis.claims = count_claims(analysis.plans)
    if ending is not None:
        analysis.cuts.append(partial(cut_at_stage, ending=ending, alpha=analysis.alpha, strict=analysis.strict))
