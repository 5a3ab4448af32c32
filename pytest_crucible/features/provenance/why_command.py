"""`crucible why`: what a verdict is made of, and what depends on a file, a checkpoint or a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.exports.files import check_graph_file, graph_file_options, write_graph
from pytest_crucible.features.provenance.graph import Graph, GraphDraft, Node, targets
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.why_lines import verdict_lines
from pytest_crucible.records import Run, Verdict
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.report.printable import AN_ID, headed_lines, printable, printable_cell
from pytest_crucible.runs.load_run import load_verdicts
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore


@click.command("why")
@run_argument
@click.argument("subject", default="")
@click.option("--suite", default="", metavar="TEXT", help="The experiment whose name contains this text.")
@click.option(
    "--sample", metavar="ID", help="Instead: the verdicts that a sample enters, and whether it alone decides."
)
@click.option("--file", metavar="FILE", help="Instead: all that depends on a file, by its path or SHA-256.")
@click.option(
    "--checkpoint", metavar="NAME", help="Instead: all that depends on weights or an adapter, by path or name."
)
@click.option("--commit", metavar="SHA", help="Instead: all that depends on a commit.")
@graph_file_options
@store_option
@json_option
def why(
    run: str,
    subject: str,
    suite: str,
    sample: str | None,
    file: str | None,
    checkpoint: str | None,
    commit: str | None,
    output: Path | None,
    style: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Show what a verdict of a run is made of: its rule, numbers, replies, and what these were made from.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`; without it, it is the latest run. SUBJECT is that of the
    verdict, such as "accuracy: v2 vs v1". Without it, each verdict that is not met is shown.

    With --file, --checkpoint or --commit, show what to recall if it was wrong: every adapter, run, verdict, promoted baseline
    and registered version of the store that depends on it.
    """
    check_graph_file(output, style)
    starts = {
        name: value
        for name, value in (("file", file), ("checkpoint", checkpoint), ("commit", commit))
        if value is not None
    }
    _check_arguments(run, subject, sample, starts)
    with existing_store(store, reader="crucible why") as opened:
        if starts:
            graph, lines = _find_dependents(opened, store, *starts.popitem())
        elif sample is not None:
            graph, lines = _weigh_sample(opened, _find_run(opened, run, subject), sample, suite)
        else:
            loaded: dict[str, AnalysisInputs] = {}
            stored = load_verdicts(
                opened, _find_run(opened, run, subject), lambda inputs: loaded.update({inputs.plan.nodeid: inputs})
            )
            verdicts = [(each.nodeid, each.subject) for each in find_verdicts(stored, subject, suite)]
            graph = build_graph(opened, stored, load_verdict_facts(opened, stored, verdicts, loaded).values())
            lines = list(_lines(stored, graph, suite))
    _print_graph(graph, lines, output, style, as_json=as_json)


def _check_arguments(run: str, subject: str, sample: str | None, starts: Mapping[str, str]) -> None:
    """Raise SpecError for several starts, and for a run or a verdict beside one that has none."""
    options = [f"--{name}" for name in starts] + (["--sample"] if sample is not None else [])
    if len(options) > 1:
        raise SpecError(f"{' and '.join(options)} are starts of their own: write one of them")
    if starts and run:
        raise SpecError(f"{options[0]} looks through all runs of the store: leave out RUN {run!r}")
    if sample is not None and subject:
        raise SpecError(f"--sample shows all verdicts that the sample enters: leave out SUBJECT {subject!r}")


def _weigh_sample(store: RunStore, run: str, sample: str, suite: str) -> tuple[Graph, list[str]]:
    from pytest_crucible.features.provenance.sample_graph import build_sample_graph

    graph = build_sample_graph(store, load_verdicts(store, run), sample, suite)
    return graph, list(sample_lines(graph, run, sample))


def _find_dependents(store: RunStore, location: str, option: str, named: str) -> tuple[Graph, list[str]]:
    # Imported here: a verdict needs neither datasets nor trainings.
    from pytest_crucible.adapters.context import files_folder
    from pytest_crucible.features.provenance import starts
    from pytest_crucible.features.provenance.dependent_lines import dependent_lines
    from pytest_crucible.features.provenance.dependents import dependents_graph
    from pytest_crucible.features.provenance.store_graph import add_store

    find = {"file": starts.find_file, "checkpoint": starts.find_checkpoint, "commit": starts.find_commit}[option]
    draft = GraphDraft()
    experiments = add_store(draft, store, files_folder(Path(), location) / "adapters")
    start = find(draft, named)
    graph = dependents_graph(draft, store, experiments, start.nodes)
    return graph, list(dependent_lines(graph, start.title, start.nodes))


def _find_run(store: RunStore, named: str, subject: str) -> str:
    """Return the id of a run. Raises SpecError, also for a verdict in its place."""
    try:
        return store.find_run(named)
    except SpecError:
        latest = store.find_run()
        if not subject and any(named in store.verdicts(key) for key, _, _ in store.experiments(latest)):
            raise SpecError(
                f"{named!r} is a verdict, and RUN comes first: write crucible why latest {named!r}"
            ) from None
        raise


def _print_graph(graph: Graph, lines: Sequence[str], output: Path | None, style: str | None, *, as_json: bool) -> None:
    """Print lines, or the graph as JSON; or write the graph into a file. Raises SpecError for an empty graph."""
    if output is None:
        print_result(lines, graph, as_json=as_json)
        return
    if not graph.nodes:
        raise SpecError(f"nothing is written to {output}: {lines[0]}")
    write_graph(graph, output, style)
    counts = {"nodes": len(graph.nodes), "relations": len(graph.relations)}
    sentence = (
        f"{quantity(counts['nodes'], 'node')} and {quantity(counts['relations'], 'relation')} written to {output}"
    )
    print_result([sentence], {"file": str(output), **counts}, as_json=as_json)


def find_verdicts(run: Run, subject: str, suite: str = "") -> Sequence[Verdict]:
    """Return the verdict on a subject, perhaps after the experiment and `::`; without one, those that are not met.

    `suite` is a part of the experiment's name. Raises SpecError for an unknown subject, and for one of several experiments.
    """
    verdicts = [verdict for verdict in run.verdicts if suite in verdict.nodeid]
    if not verdicts:
        raise SpecError(_explain_none(run, suite))
    if not subject:
        return [verdict for verdict in verdicts if verdict.state != "met" or verdict.suite_error]
    matching = [each for each in verdicts if subject in (each.subject, f"{each.nodeid}::{each.subject}")]
    if not matching:
        subjects = list(dict.fromkeys(verdict.subject for verdict in verdicts))
        there = (
            f"it has {', '.join(map(repr, subjects[:MOST_SUBJECTS]))}{' and more' * (len(subjects) > MOST_SUBJECTS)}"
        )
        raise SpecError(f"run {run.id} has no verdict {subject!r}: {suggest(subject, subjects, otherwise=there)}")
    if len(matching) > 1:
        raise SpecError(
            f"run {run.id} has {subject!r} in {len(matching)} experiments: choose one with --suite, such as "
            f"{matching[0].nodeid}"
        )
    return matching


MOST_SUBJECTS = 5
"""Subjects that an error lists, where none is similar."""


def _explain_none(run: Run, suite: str) -> str:
    """Return why a run has no verdict at all, or none in the experiments whose name contains a text."""
    nodeids = [analysis.plan.nodeid for analysis in run.experiments]
    if not run.verdicts:
        return f"run {run.id} has no verdicts: none of its experiments has a target, a comparison or a claim"
    return f"run {run.id} has no experiment with verdicts whose name contains {suite!r}: it has {', '.join(nodeids)}"


def _lines(run: Run, graph: Graph, suite: str) -> Iterator[str]:
    verdicts = [node for node in graph.nodes.values() if node.type == "verdict"]
    if not verdicts:
        subjects = [verdict.subject for verdict in run.verdicts if suite in verdict.nodeid]
        of_suite = f" in experiments named {suite!r}" if suite else ""
        many = f"all {len(subjects):,} verdicts of run {run.id}{of_suite} are met"
        met = many if len(subjects) > 1 else f"the verdict of run {run.id}{of_suite} is met"
        yield f"{met}: name one to see why, such as {subjects[0]!r}"
    for number, verdict in enumerate(verdicts):
        yield from [""] if number else []
        yield from verdict_lines(graph, verdict)


_HEADS = ("verdict", "state", "weight", "scores", "without it", "decides alone")


def sample_lines(graph: Graph, run: str, sample: str) -> Iterator[str]:
    """Yield a table of the verdicts that a sample enters for each experiment, and those that it does not enter."""
    nodes = [node for node in graph.nodes.values() if node.type == "sample"]
    groups = sorted({node.facts["group"] for node in nodes if node.facts["group"]})
    of_group = f" (group {printable(', '.join(groups), AN_ID)})" if groups else ""
    yield f"sample {printable(sample, AN_ID)}{of_group} in run {run}"
    verdicts = [node for node in graph.nodes.values() if node.type == "verdict"]
    for nodeid in dict.fromkeys(node.facts["nodeid"] for node in verdicts):
        of_experiment = [node for node in verdicts if node.facts["nodeid"] == nodeid]
        yield from ("", printable_cell(nodeid))
        rows = [_row(graph, node) for node in of_experiment if node.facts["weight"] is not None]
        yield from headed_lines(_HEADS, rows) if rows else ()
        for node in of_experiment:
            if node.facts["no_part"]:
                yield f"{printable_cell(node.label)}: not weighed, {printable_cell(node.facts['no_part'])}"
    if not verdicts:
        yield "no verdict is about its experiments"


def _row(graph: Graph, verdict: Node) -> tuple[str, ...]:
    facts = verdict.facts
    without = f"{facts['state_without']}{', proven' if facts['proven_without'] else ''}"
    return (
        printable_cell(verdict.label),
        f"{facts['state']}{', proven' if facts['proven'] else ''}",
        f"1 of {facts['n']:,} ({facts['weight'] * 100:.2g} %)",
        printable_cell(", ".join(_scores(graph, verdict))),
        without,
        "yes" if facts["decides_alone"] else "no",
    )


def _scores(graph: Graph, verdict: Node) -> Iterator[str]:
    """Yield `v2 0, v1 1`; of several replies all scores."""
    scores: dict[str, list[str]] = {}
    for node in targets(graph, verdict.key, "derived from"):
        failure, value = node.facts.get("failure"), node.facts.get("value")
        score = "-" if value is None else f"{value:.4g}"
        scores.setdefault(node.facts["arm"], []).append(f"failed ({failure})" if failure else score)
    return (f"{arm} {' '.join(values)}" for arm, values in scores.items())
