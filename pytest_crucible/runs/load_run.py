"""Loads a stored run: analysed again, with the verdicts given then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.records import Run, Verdict
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.runs.evaluate import analyse_run, concluded_run
from pytest_crucible.runs.plugins import Extensions, installed_extensions
from pytest_crucible.runs.run_analysis import alpha_at_end
from pytest_crucible.store.runs import RunStore

Stored = Mapping[tuple[str, str], Mapping[str, Any]]
"""Stored verdicts by nodeid and subject."""


def load_run(store: RunStore, run: str, *, decide_again: bool = False) -> Run:
    """Return the run with this id. Nothing is written; verdicts on a killed run are decided by its stored replies.

    With `decide_again`, the verdicts that another version of the rules gave are decided by this one.

    Sections of plugins cannot be loaded. Their stored verdicts are shown nevertheless, and still share alpha.
    """
    return _load(store, run, installed_extensions(), _stored_verdicts(store, run), decide_again=decide_again)


def load_verdicts(
    store: RunStore, run: str, keep_inputs: Callable[[AnalysisInputs], None] = lambda inputs: None
) -> Run:
    """Return the run with what its verdicts were decided from, in a third of the time of `load_run`.

    It has sections only if some verdict is about one or none is stored, and no plans of a next run. `keep_inputs` is that of
    `analyse_run`.
    """
    stored, extensions = _stored_verdicts(store, run), installed_extensions()
    needs_sections = not stored or any(verdict["kind"] == "claim" for verdict in stored.values())
    if not needs_sections:
        extensions = replace(extensions, sections={})
    return _load(store, run, extensions, stored, plans_next_run=False, keep_inputs=keep_inputs)


def _load(
    store: RunStore,
    run: str,
    extensions: Extensions,
    stored: Stored,
    *,
    decide_again: bool = False,
    plans_next_run: bool = True,
    keep_inputs: Callable[[AnalysisInputs], None] = lambda inputs: None,
) -> Run:
    facts = store.run(run)
    settings = (facts["manifest"] or {}).get("settings") or {}
    alpha = alpha_at_end(store, run, extensions, facts["alpha"])
    analyses_by_key, family_size = analyse_run(
        store,
        run,
        extensions,
        alpha=alpha,
        interrupted=facts["status"] != "finished",
        memory=settings.get("memory", "off"),
        strict=settings.get("strict", False),
        stored_claims=sum((verdict["kind"] == "claim" and ": " in subject) for (_, subject), verdict in stored.items()),
        plans_next_run=plans_next_run,
        keep_inputs=keep_inputs,
    )
    analyses = list(analyses_by_key.values())
    rules = rules_of(facts["environment"])
    again = decide_again and rules != RULES_VERSION
    strict = again and settings.get("strict", False)
    decided = gate.decide_verdicts(analyses, alpha=alpha, strict=strict, family_size=family_size)
    verdicts = decided if again else tuple(_restore_verdicts(decided, stored))
    whole = concluded_run(store, run, facts["finished"] or "", family_size, analyses, verdicts, alpha=alpha)
    return replace(whole, exit_status=facts["exit_status"] or 0, rules=rules, decided_again=again)


def _stored_verdicts(store: RunStore, run: str) -> Stored:
    return {
        (plan.nodeid, subject): verdict
        for key, plan, _ in store.experiments(run)
        for subject, verdict in store.verdicts(key).items()
    }


def _restore_verdicts(decided: tuple[Verdict, ...], stored: Stored) -> Iterator[Verdict]:
    """Yield the verdicts as the session gave them: a hook may have waived one, or --crucible-strict asked for proof."""
    for verdict in decided:
        facts = stored.get((verdict.nodeid, verdict.subject), {})
        # Earlier versions called a margin met that nothing can exceed: such a proof is dropped.
        is_void = verdict.suite_error and facts.get("proven", False)
        yield verdict if is_void else replace(verdict, **facts)
    # Claims of a plugin's section cannot be computed without the plugin, but their stored verdicts are.
    decided_keys = {(verdict.nodeid, verdict.subject) for verdict in decided}
    for (nodeid, subject), facts in stored.items():
        if facts["kind"] == "claim" and (nodeid, subject) not in decided_keys:
            yield Verdict(nodeid=nodeid, subject=subject, **facts)
