"""Two runs that are compared: what an address says of the comparison, and its results, computed once in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple
from urllib.parse import unquote

from starlette.datastructures import QueryParams

from pytest_crucible.features.view.changed_samples import ChangedSamples, find_changes
from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.site import Site
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.records import Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import parse_amount
from pytest_crucible.report.html import page_values
from pytest_crucible.report.model import build_report
from pytest_crucible.report.sections import notes as further_notes
from pytest_crucible.report.terminal import comparison_tests
from pytest_crucible.runs.compare import StoredArm
from pytest_crucible.runs.named_arms import Question, decide_named, make_question, pair_named, read_claims, split_arm
from pytest_crucible.store.runs import RunStore


def split_names(path: str) -> list[str]:
    """Return the parts of an address's path as it was sent: the name of a tag or an arm may have slashes."""
    return [unquote(part) for part in path.split("/") if part]


CHOICES = ("metric", "margin", "relevant", "alternative", "alpha", "differ")
"""The names of the choices in the query of an address: those of the options of `crucible compare`."""
Choices = Mapping[str, Sequence[str]]


def read_choices(query: QueryParams) -> Choices:
    """Return the texts of each choice, but for empty fields of a form."""
    return {name: [text for text in map(str.strip, query.getlist(name)) if text] for name in CHOICES}


def read_question(store: RunStore, candidate: str, baseline: str, choices: Choices) -> Question:
    """Return the question that an address asks. Raises SpecError."""
    texts = {name: "".join(choices[name][:1]) for name in CHOICES}
    if texts["alternative"] not in ("", *ALTERNATIVES):
        raise SpecError(f"alternative={texts['alternative']!r} is not a claim: choose {', '.join(ALTERNATIVES)}")
    margin, relevant = (parse_amount(texts[name]) if texts[name] else None for name in ("margin", "relevant"))
    claims = read_claims(choices["metric"], margin, texts["alternative"] or None, relevant)
    differ = tuple(choices["differ"])
    return make_question(store, candidate, baseline, claims, alpha=_parse_alpha(texts["alpha"]), arms_differ_in=differ)


def _parse_alpha(text: str) -> float | None:
    try:
        alpha = float(text) if text else None
    except ValueError:
        alpha = 0.0
    if alpha is not None and not 0 < alpha <= 0.5:
        raise SpecError(f"alpha={text!r} is not an error rate: write a number above 0 and up to 0.5, such as 0.05")
    return alpha


def find_side(site: Site, named: str) -> StoredArm:
    """Return the arm of `RUN:ARM`. Raises SpecError for an unknown run, and for one that was removed since."""
    run, arm = split_arm(named)
    return StoredArm(site.find_run(run), arm)


class ComparedRuns(NamedTuple):
    """The results of a comparison as HTML, and the samples that changed."""

    results: str
    experiments: tuple[ChangedSamples, ...]


def start_comparison(site: Site, candidate: str, baseline: str, choices: Choices) -> Future[ComparedRuns]:
    """Return the comparison of two runs, perhaps not computed yet. Raises SpecError for an unfinished run, and bad choices."""
    finished = []
    for named in (candidate, baseline):
        facts = site.store.run(find_side(site, named).run)
        finished.append(facts["finished"])
        if facts["status"] == "running":
            raise SpecError(
                f'run {facts["id"]} has not finished: this page compares it when it has, and "crucible compare" what it has so far'
            )
    read_question(site.store, candidate, baseline, choices)
    function = "pytest_crucible.features.view.compared_runs:compare"
    key = ("compare", candidate, baseline, repr(choices), *finished)
    return site.comparisons.start(
        key, lambda: compute_apart(function, site.store.where, candidate, baseline, dict(choices))
    )


def compare(site: Site, candidate: str, baseline: str, choices: Choices) -> ComparedRuns:
    """Return the comparison of two runs. Raises SpecError."""
    question = read_question(site.store, candidate, baseline, choices)
    pairs = pair_named(site.store, question)
    run, notes = decide_named(site.store, question, pairs)
    return ComparedRuns(_render(site, run, notes), tuple(map(find_changes, pairs)))


def _render(site: Site, run: Run, notes: Sequence[str]) -> str:
    tests = (*comparison_tests(run), *(note.text for note in further_notes(run, verbosity=1)))
    return site.render("compare_results.html.j2", notes=notes, tests=tests, **page_values(build_report(run), ()))
