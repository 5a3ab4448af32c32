"""Two runs that are compared: what an address says of the comparison, and its results, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import QueryParams

from pytest_crucible.features.view.changed_samples import ChangedSamples
from pytest_crucible.features.view.site import Site
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.records import Plan, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import parse_amount
from pytest_crucible.report.model import Report, build_report, making_facts
from pytest_crucible.report.sections import notes as further_notes
from pytest_crucible.report.terminal import comparison_tests
from pytest_crucible.runs.named_arms import Question, decide_named, make_question, pair_named, read_claims
from pytest_crucible.store.runs import RunStore


def split_names(path: str) -> list[str]:
    """Return the parts of an address's path as it was sent: the name of a tag or an arm may have slashes."""
    return [unquote(part) for part in path.split("/") if part]


def read_question(store: RunStore, candidate: str, baseline: str, query: QueryParams) -> Question:
    """Return the question that an address asks. Raises SpecError."""
    metrics = [name for name in query.getlist("metric") if name]
    alternative = query.get("alternative") or None
    if alternative not in (None, *ALTERNATIVES):
        raise SpecError(f"alternative={alternative!r} is not a claim: choose {', '.join(ALTERNATIVES)}")
    claims = read_claims(metrics, _amount(query, "margin"), alternative, _amount(query, "relevant"))
    alpha = _parse_alpha(query.get("alpha", ""))
    differ = tuple(name.strip() for name in query.getlist("differ") if name.strip())
    return make_question(store, candidate, baseline, claims, alpha=alpha, arms_differ_in=differ)


def _amount(query: QueryParams, name: str) -> float | str | None:
    text = query.get(name, "").strip()
    return parse_amount(text) if text else None


def _parse_alpha(text: str) -> float | None:
    try:
        alpha = float(text) if text else None
    except ValueError:
        alpha = 0.0
    if alpha is not None and not 0 < alpha <= 0.5:
        raise SpecError(f"alpha={text!r} is not an error rate: write a number above 0 and up to 0.5, such as 0.05")
    return alpha


@dataclass(frozen=True)
class ComparedRuns:
    """The results of a comparison, and its samples."""

    run: Run
    report: Report
    notes: tuple[str, ...]
    """What else differs between the two runs."""
    tests: tuple[str, ...]
    """The test of each comparison with its p-values, and further notes."""
    experiments: tuple[ChangedSamples, ...]


def compare_once(site: Site, question: Question) -> ComparedRuns:
    """Return the results of a comparison of finished runs, which is computed once. Raises SpecError."""
    for run in (question.ours.run, question.theirs.run):
        if site.store.run(run)["status"] == "running":
            raise SpecError(
                f"run {run} has not finished: this page compares it when it has, and `crucible compare` what it has so far"
            )
    key = ("compare", repr(question))
    return site.computed.get(key, lambda: _compare(site.store, question))


def _compare(store: RunStore, question: Question) -> ComparedRuns:
    pairs = pair_named(store, question)
    run, notes = decide_named(store, question, pairs)
    tests = (*comparison_tests(run), *(note.text for note in further_notes(run, verbosity=1)))
    return ComparedRuns(run, build_report(run), notes, tests, tuple(map(ChangedSamples, pairs)))


def differing_facts(
    ours: Mapping[str, Any], our_plans: Sequence[Plan], theirs: Mapping[str, Any], their_plans: Sequence[Plan]
) -> Iterator[tuple[str, str, str]]:
    """Yield what the replies of two runs depended on, as far as it differs: name, the candidate's and the baseline's value."""
    both = [
        dict(making_facts(plans, facts["git"], facts["environment"]))
        for facts, plans in ((ours, our_plans), (theirs, their_plans))
    ]
    for name in dict.fromkeys((*both[0], *both[1])):
        values = [facts.get(name, "-") for facts in both]
        if values[0] != values[1]:
            yield name, values[0], values[1]
