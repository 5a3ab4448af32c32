"""Evaluates a run: stored outcomes, and earlier ones, become estimates, comparisons and verdicts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_crucible import gate
from pytest_crucible.analyse.adjusted_analyses import (
    add_reduced_evidence,
    decide_on_pools,
    hold_for_all_members,
    without_excluded,
)
from pytest_crucible.analyse.analysis import (
    AnalysisInputs,
    ScoreTable,
    analyse,
    score_table,
    uses_expected,
    uses_fields,
)
from pytest_crucible.analyse.pool import Part, Pool, pool_arms
from pytest_crucible.analyse.scores import mark_inapplicable
from pytest_crucible.analyse.stopping import in_order, keep_answers, skip_samples, stop_early
from pytest_crucible.features.row import Placed
from pytest_crucible.measures.statistic import MOST_REPLIES
from pytest_crucible.plan.streamed import MOST_IMPORTED, is_streamed, most_replies
from pytest_crucible.records import (
    CUT_SHORT,
    Analysis,
    ArmOutcomes,
    Contrast,
    Look,
    Plan,
    Run,
    ScoreColumns,
    Target,
    Verdict,
)
from pytest_crucible.records.call_differences import SentCalls
from pytest_crucible.records.datasets import SAME_ANSWER, VariantRules
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.runs.plugins import Extensions, installed_extensions, variant_rules
from pytest_crucible.runs.run_analysis import RunAnalysis, alpha_at_end, begin_analysis, complete_samples
from pytest_crucible.sections import Section
from pytest_crucible.sections.inputs import StoredDetails, section_inputs
from pytest_crucible.sections.run import add_views, compute_sections
from pytest_crucible.store.events import load_budgets
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.history import arm_key, claim_of, past_targets, reply_sources
from pytest_crucible.store.outcomes import inapplicable_reasons, load_arm
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sent_calls import load_sent, own_settings, unlike_places

if TYPE_CHECKING:
    from pytest_crucible.runs.large_experiments import LargeExperiment
    from pytest_crucible.store.sample_batches import Batches


def conclude(
    store: RunStore,
    run: str,
    *,
    alpha: float,
    strict: bool,
    interrupted: bool,
    amend: Callable[[Verdict], Verdict | None],
    extensions: Extensions | None = None,
    memory: str = "off",
    most_in_memory: int = MOST_REPLIES,
    batches: Mapping[str, Batches] = MappingProxyType({}),
) -> Run:
    """Analyse everything that a run has stored, decide all verdicts together, store and return them.

    `amend` may replace a verdict; `extensions` are those that are installed, if not given; `memory` is the setting
    crucible_memory; `most_in_memory` and `batches` are those of `analyse_run`.
    """
    extensions = extensions or installed_extensions()
    alpha = alpha_at_end(store, run, extensions, alpha)
    by_key, family_size = analyse_run(
        store,
        run,
        extensions,
        alpha=alpha,
        interrupted=interrupted,
        memory=memory,
        strict=strict,
        most_in_memory=most_in_memory,
        batches=batches,
    )
    analyses = list(by_key.values())
    decided = gate.decide_verdicts(analyses, alpha=alpha, strict=strict, family_size=family_size)
    verdicts = tuple(amend(verdict) or verdict for verdict in decided)
    for key, analysis in by_key.items():
        store.set_kinds(key, analysis.kinds)
        store.add_verdicts(key, [verdict for verdict in verdicts if verdict.nodeid == analysis.plan.nodeid])
    # Imported here: a stored run is shown without the facts of this machine.
    from pytest_crucible.runs.provenance import utc_now

    finished_at = utc_now()
    is_whole = not interrupted and all(analysis.finished for analysis in analyses)
    store.end_run(run, finished=finished_at, status="finished" if is_whole else "interrupted")
    return concluded_run(store, run, finished_at, family_size, analyses, verdicts, alpha=alpha)


def analyse_run(
    store: RunStore,
    run: str,
    extensions: Extensions,
    *,
    alpha: float,
    interrupted: bool,
    stored_claims: int = 0,
    memory: str = "off",
    strict: bool = False,
    at: Mapping[str, Any] | None = None,
    look_share: float = 1.0,
    plans_next_run: bool = True,
    most_in_memory: int = MOST_REPLIES,
    batches: Mapping[str, Batches] = MappingProxyType({}),
    keep_inputs: Callable[[AnalysisInputs], None] = lambda inputs: None,
) -> tuple[dict[int, Analysis], int]:
    """Return the analysis of each experiment that began, by its key, and the size of the session's Holm family.

    Nothing is stored. `stored_claims` is the number of claims that the session decided: those of a plugin's section cannot
    be computed again without the plugin, and yet they share alpha. `at` is the place to look at, in the words of features;
    without it that at which the session ended. `look_share` is the share of the plan's alpha for looks (--crucible-stop) that
    this analysis spends. `plans_next_run` is that of `AnalysisInputs`. An experiment with more than `most_in_memory` replies is
    analysed in batches; so is one that `batches` has by its name, of which the store has no rows.
    `keep_inputs` receives the inputs of each other experiment, for those who weigh them again.
    """
    whole = begin_analysis(store, run, extensions, alpha=alpha, strict=strict, at=at)

    def is_large(plan: Plan) -> bool:
        # Pools and features that choose samples need all of them.
        needs_all = memory == "pool" or whole.cuts or variant_rules(plan).kept
        if needs_all and plan.nodeid in batches:
            # Without this its samples, which are not in the store, would vanish.
            raise SpecError(
                f"{plan.nodeid} has more than {MOST_IMPORTED:,} replies, and a plugin chooses the samples that count, which "
                "needs all of them in memory: compare fewer at a time, or uninstall the plugin"
            )
        return not needs_all and is_streamed(plan, most_in_memory)

    def experiments() -> Iterator[tuple[AnalysisInputs | LargeExperiment, StoredExperiment]]:
        for stored in load_experiments(whole.store, whole.run, is_large):
            stored = _with_look_share(stored, look_share)
            finished = _is_finished(stored, interrupted=interrupted)
            if is_large(stored.plan):
                from pytest_crucible.runs.large_experiments import LargeExperiment

                most = most_replies(stored.plan, most_in_memory)
                of_rows = batches.get(stored.plan.nodeid)
                yield LargeExperiment(stored, finished, most, plans_next_run=plans_next_run, batches=of_rows), stored
                continue
            inputs = replace(_cut_inputs(whole, stored, finished), plans_next_run=plans_next_run)
            keep_inputs(inputs)
            yield add_pools(inputs, stored, strict=strict) if memory == "pool" else inputs, stored

    analyses, family_size = analyse_together(
        experiments, extensions.sections, alpha=alpha, declared=whole.claims, stored_claims=stored_claims
    )
    keys = {plan.nodeid: key for key, plan, _ in store.experiments(run)}
    by_key = {keys[analysis.plan.nodeid]: analysis for analysis in analyses}
    return {key: _with_reasons(store, key, analysis) for key, analysis in by_key.items()}, family_size


def load_inputs(
    store: RunStore, run: str, *, alpha: float, strict: bool, interrupted: bool
) -> Iterator[AnalysisInputs]:
    """Yield the inputs of the analysis of each experiment that began, with the samples that count; without pools."""
    whole = begin_analysis(store, run, installed_extensions(), alpha=alpha, strict=strict)
    return (
        _cut_inputs(whole, stored, _is_finished(stored, interrupted=interrupted))
        for stored in load_experiments(whole.store, whole.run)
    )


def _is_finished(stored: StoredExperiment, *, interrupted: bool) -> bool:
    return stored.finished or (stored.plan.by_item and not interrupted)


def _cut_inputs(whole: RunAnalysis, stored: StoredExperiment, finished: bool) -> AnalysisInputs:
    inputs = analysis_inputs(stored, finished)
    for cut in whole.cuts:
        inputs = cut(inputs, stored)
    return inputs


def _with_look_share(stored: StoredExperiment, share: float) -> StoredExperiment:
    alpha = stored.plan.look_alpha
    if alpha is None or share == 1:
        return stored
    return replace(stored, plan=replace(stored.plan, look_alpha=alpha * share))


def analyse_together(
    experiments: Callable[[], Iterable[tuple[AnalysisInputs | LargeExperiment, StoredDetails]]],
    sections: Mapping[str, Section | Placed],
    *,
    alpha: float,
    declared: int,
    stored_claims: int = 0,
) -> tuple[list[Analysis], int]:
    """Return the analyses of all experiments of a session, and the size of its Holm family.

    `experiments` reads them one after the other: only the analyses stay in memory, not the replies. `declared` is the number
    of declared comparisons that share alpha; the claims of sections that can fail the session join them.
    """
    size = declared + stored_claims
    analyses = [_analyse(sections, *pair, alpha=alpha, family_size=size) for pair in experiments()]
    deciding = sum(
        claim.fails for analysis in analyses for section in analysis.sections.values() for claim in section.claims
    )
    family_size = declared + max(deciding, stored_claims)
    # The first pass shows how many claims of sections join the family, and power depends on how many claims share alpha.
    if family_size != size:
        analyses = [_analyse(sections, *pair, alpha=alpha, family_size=family_size) for pair in experiments()]
    adjusted = gate.adjust_p_values(analyses, family_size=family_size)
    return [add_views(sections, analysis) for analysis in adjusted], family_size


def _analyse(
    sections: Mapping[str, Section | Placed],
    inputs: AnalysisInputs | LargeExperiment,
    stored: StoredDetails,
    *,
    alpha: float,
    family_size: int,
) -> Analysis:
    if not isinstance(inputs, AnalysisInputs):
        # Loaded for a run of so many replies.
        from pytest_crucible.runs.large_experiments import analyse_large

        return analyse_large(sections, inputs, alpha=alpha, family_size=family_size)
    table = score_table(inputs)
    outcomes = compute_sections(sections, section_inputs(inputs, table, stored, alpha=alpha))
    analysis = _estimate(inputs, table, alpha=alpha, family_size=family_size)
    reduced = without_excluded(inputs, analysis.kinds)
    if reduced is not None:
        rest = _estimate(reduced, score_table(reduced), alpha=alpha, family_size=family_size)
        analysis = add_reduced_evidence(analysis, rest)
    return replace(analysis, sections=outcomes)


def _estimate(inputs: AnalysisInputs, table: ScoreTable, *, alpha: float, family_size: int) -> Analysis:
    if inputs.looked_at is not None:
        table = in_order(table, inputs.looked_at, inputs.plan.look_alpha)
    of_each = alpha / inputs.plan.chosen_among
    analysis = hold_for_all_members(analyse(inputs, table, alpha=of_each, family_size=family_size))
    return decide_on_pools(analysis, inputs, alpha=alpha, family_size=family_size)


def analysis_inputs(stored: StoredExperiment, finished: bool) -> AnalysisInputs:
    """Return the inputs of the analysis of a stored experiment. It is not finished where a budget or deadline cut it short."""
    expected = stored.expected_values() if uses_expected(stored.plan) else ()
    rules = variant_rules(stored.plan)
    of_variants = _variant_answers(stored, rules)
    inputs = AnalysisInputs(
        plan=stored.plan,
        answers=mark_inapplicable(stored.plan, stored.arms, expected),
        groups=stored.groups,
        finished=finished,
        known_kinds=stored.known_kinds,
        expected=expected,
        metadata=stored.metadata_values() if uses_fields(stored.plan) else (),
        variants={name: mark_inapplicable(stored.plan, arms, expected) for name, arms in of_variants.items()},
        sample_ids=stored.all_sample_ids(),
        seed=stored.seed(),
    )
    is_cut_short = any(lost.reason in CUT_SHORT for arm in inputs.all_answers for lost in arm.lost)
    inputs = add_same_answers(replace(inputs, finished=finished and not is_cut_short), stored, rules)
    alpha = stored.plan.look_alpha
    return inputs if alpha is None else stop_early(inputs, complete_samples(stored), alpha)


def stored_inputs(store: RunStore, run: str) -> Iterator[AnalysisInputs]:
    """Yield the inputs of the analysis for each experiment that the run started."""
    for stored in load_experiments(store, run):
        yield analysis_inputs(stored, all_ran(store, run, stored.plan, stored.finished))


def all_ran(store: RunStore, run: str, plan: Plan, finished: bool) -> bool:
    """Return whether all samples of a stored experiment were run; pytest runs those of a joined test until its session ends."""
    return finished or (plan.by_item and store.run(run)["status"] == "finished")


def _variant_answers(stored: StoredExperiment, rules: VariantRules) -> dict[str, tuple[ArmOutcomes, ...]]:
    """Return the arms' outcomes on each variant.

    Samples without a twin are skipped, not lost; so are those whose expected answer is no longer right by a person's label.
    """
    if not stored.variants:
        return {}
    without_twin, plan = stored.samples_without_twin(), stored.plan
    answers = {name: skip_samples(plan, arms, without_twin[name]) for name, arms in stored.variants.items()}
    if not rules.kept:
        return answers
    positions = {sample: position for position, sample in enumerate(stored.all_sample_ids())}
    for name, labels in rules.kept.items():
        wrong = {positions[sample] for sample, is_kept in labels.items() if not is_kept and sample in positions}
        left = sorted(wrong - set(without_twin[name]))
        others = [position for position in range(len(positions)) if position not in wrong]
        own = tuple(keep_answers(arm, others) for arm in stored.variants[name])
        answers[name] = skip_samples(plan, own, {*without_twin[name], *left})
    return answers


def _with_reasons(store: RunStore, key: int, analysis: Analysis) -> Analysis:
    """Return the analysis with the reasons why metrics do not apply, read only where some do not."""
    if not any(estimate.inapplicable for estimate in analysis.estimates):
        return analysis
    return replace(analysis, inapplicable=inapplicable_reasons(store, key, 0))


def concluded_run(
    store: RunStore,
    run: str,
    finished: str,
    family_size: int,
    analyses: Sequence[Analysis],
    verdicts: tuple[Verdict, ...],
    *,
    alpha: float,
) -> Run:
    """Return the whole run. Its exit status is 0 until the session sets it."""
    facts = store.run(run)
    return Run(
        id=run,
        started=facts["started"],
        finished=finished,
        seed=facts["seed"],
        git=facts["git"],
        environment=facts["environment"],
        alpha=alpha,
        correction=facts["correction"],
        family_size=family_size,
        experiments=tuple(analyses),
        verdicts=verdicts,
        exit_status=0,
        store=store.location,
        budgets=load_budgets(store, run),
    )


class _History:
    """The arms of past sessions, as the store has them. All comparisons of a session ask for the same ones: each is read once."""

    def __init__(self, stored: StoredExperiment) -> None:
        self.stored = stored
        self.load: Callable[[int | None], ArmOutcomes] = functools.cache(lambda arm: load_arm(stored.store, arm, 0))
        self.sources: Callable[[int, str], Mapping[tuple[int, int], str]] = functools.cache(
            lambda arm, run: reply_sources(stored.store, arm, run)
        )
        self._sent: Callable[[int], Mapping[tuple[int, int], SentCalls]] = functools.cache(
            lambda number: load_sent(
                stored.store, arm_key(stored.store, stored.key, number), own_settings(arms[number])
            )
        )
        arms = stored.plan.arms

    def has_equal_calls(self, number: int, arm: int) -> bool:
        """Return whether an arm of a past session was sent what this session has sent to the arm with this number."""
        own = self.stored.plan.arms[number]
        return not unlike_places(self._sent(number), load_sent(self.stored.store, arm, own_settings(own)), own)


def add_pools(inputs: AnalysisInputs, stored: StoredExperiment, *, strict: bool) -> AnalysisInputs:
    """Return the inputs with the pools of deciding comparisons, and of targets that must be proven (all if `strict`).

    An interrupted session decides nothing.
    """
    plan = inputs.plan
    if not inputs.finished or plan.selected < plan.planned:
        return inputs
    history = _History(stored)
    pools = {contrast: _load_pool(history, contrast) for contrast in plan.contrasts if contrast.decides}
    targets = [target for target in plan.targets if (strict or target.decide == "bound") and target.relation != "=="]
    return replace(inputs, pools=pools, target_pools={target: _load_target_pool(history, target) for target in targets})


def _load_target_pool(history: _History, target: Target) -> Pool:
    stored = history.stored
    every = past_targets(stored.store, stored.key, target.text)
    past = [session for session in every if history.has_equal_calls(0, session[2])]
    arms = [*(arm for _, _, arm in past), arm_key(stored.store, stored.key, 0)]
    parts = _parts(history, arms, [run for run, _, _ in past])
    since = past[0][1] if past else ""
    number = max(sum(bool(part.new) for part in parts), 1) + len(every) - len(past)
    look = Look(number=number, replies=(_count(parts),), since=since, other_calls=len(every) - len(past))
    return pool_arms([parts], look)


def _load_pool(history: _History, contrast: Contrast) -> Pool:
    """Return the replies of all sessions until this one. A look is a session that brought new replies."""
    stored = history.stored
    every = stored.past_comparisons(contrast)
    number = [arm.name for arm in stored.plan.arms].index(contrast.baseline)
    past = [look for look in every if all(map(history.has_equal_calls, (0, number), look.arms))]
    # Their replies are not pooled. They were looks all the same: a test whose calls change each day would never spend alpha.
    left_out = [look for look in every if look not in past]
    own = arm_key(stored.store, stored.key, 0), arm_key(stored.store, stored.key, number)
    runs = [look.run for look in past]
    sides = [_parts(history, [*(look.arms[side] for look in past), own[side]], runs) for side in (0, 1)]
    grew = [any(part.new for part in session) for session in zip(*sides, strict=True)]
    claim = claim_of(contrast.subject(stored.plan.candidate.name), stored.plan.candidate.name, contrast.baseline)
    look = Look(
        number=max(sum(grew), 1) + sum(any(look.has_new_replies) for look in left_out),
        replies=(_count(sides[0]), _count(sides[1])),
        other_calls=len(left_out),
        since=past[0].started if past else "",
        proven_in=next((look for look in past if look.is_pooled and look.missed and look.subject == claim), None),
    )
    return pool_arms(sides, look)


def _parts(history: _History, arms: Sequence[int], earlier: Sequence[str]) -> list[Part]:
    """Return what each session adds to one arm, oldest first: the `earlier` runs, and this session."""
    runs = [*earlier, history.stored.run]
    counted: set[tuple[tuple[int, int], str]] = set()
    parts = []
    for arm, run in zip(arms, runs, strict=True):
        sources = set(history.sources(arm, run).items())
        new = frozenset(place for place, _ in sources - counted)
        counted |= sources
        # A stored baseline is copied into every session, so reading it again would add nothing.
        adds = new or arm == arms[-1]
        parts.append(Part(history.load(arm if adds else None), new))
    return parts


def _count(parts: Sequence[Part]) -> int:
    return sum(len(part.new) for part in parts)


Unit = tuple[int, int]
"""Position and repeat."""


def add_same_answers(inputs: AnalysisInputs, stored: StoredExperiment, rules: VariantRules) -> AnalysisInputs:
    """Return the inputs with the scores of `same_answer` on each variant, if a target or comparison names it.

    Texts are read for it, which no other analysis needs. A unit is scored where both replies have been given; one whose twin
    failed has the worst value, as for any metric. Two replies without an answer are the same.
    """
    if all(term.metric != SAME_ANSWER for term in inputs.plan.variant_terms):
        return inputs
    from pytest_crucible.metrics.normalisers import NORMALISERS

    normalise = NORMALISERS[rules.normalise]

    def answers(arm: int, twin: int) -> dict[Unit, str | None]:
        return {unit: normalise(answer_text(text)) for unit, text in stored.reply_texts(arm, twin).items()}

    originals = [answers(number, 0) for number in range(len(inputs.plan.arms))]
    return replace(
        inputs,
        variants={
            variant.name: tuple(
                _with_scores(arm, originals[number], answers(number, twin))
                for number, arm in enumerate(inputs.variants[variant.name])
            )
            for twin, variant in enumerate(inputs.plan.variants, start=1)
        },
    )


def _with_scores(
    arm: ArmOutcomes, originals: Mapping[Unit, str | None], twins: Mapping[Unit, str | None]
) -> ArmOutcomes:
    """Return the arm's outcomes on a variant, scored; without a reply to the sample itself, the metric does not apply."""
    units = [unit for unit in zip(arm.positions, arm.repeats, strict=True) if unit in twins]
    values = [float(originals[unit] == twins[unit]) if unit in originals else None for unit in units]
    column = ScoreColumns(
        positions=[position for position, _ in units],
        repeats=[repeat for _, repeat in units],
        values=values,
        is_bool=[value is not None for value in values],
    )
    return replace(arm, scores={**arm.scores, SAME_ANSWER: column})
