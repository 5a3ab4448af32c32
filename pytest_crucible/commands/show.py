"""`crucible show` and `crucible report`: a stored run as its session reported it, or one sample's conversations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible import builtin
from pytest_crucible.commands.options import WithPages, json_option, print_result, run_argument, store_option
from pytest_crucible.records import Conversation, Run
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.report.conversations import Block, conversation_turns, score_text
from pytest_crucible.report.json import run_document
from pytest_crucible.report.markdown import plain, render_markdown
from pytest_crucible.report.plain_sentence import plain_sentence
from pytest_crucible.report.printable import A_LINE, AN_ID, printable
from pytest_crucible.report.terminal import summary
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.report_facts import add_stored_facts
from pytest_crucible.runs.report_files import check_writable, report_files, write_report
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids, find_position, load_sample

_INDENT, _ROLE = "  ", 10


def conversation_lines(
    nodeid: str, sample: Mapping[str, Any], conversations: Sequence[Conversation], *, reasoning: bool
) -> Iterator[str]:
    """Yield the lines of a conversation. Reasoning is one line with its length, unless `reasoning` is True."""
    yield f"{nodeid}, sample {printable(sample['sample_id'], AN_ID)}"
    for name in ("expected", "metadata"):
        if sample[name] is not None:
            yield from _block(name, sample[name])
    for conversation in conversations:
        yield ""
        yield _head(conversation)
        sent = sample["input"] if conversation.input is None else conversation.input
        yield from _turns(conversation, sent, reasoning)


def _head(conversation: Conversation) -> str:
    draw = f", {conversation.draw}" if conversation.draw else ""
    scores = ", ".join(f"{name} = {score_text(value)}" for name, value in conversation.scores.items())
    details = "; ".join(part for part in (conversation.detail.partition("\n")[0], scores) if part)
    return f"{conversation.arm}{draw}: {conversation.state}{f' ({details})' if details else ''}"


def _turns(conversation: Conversation, sample_input: Any, reasoning: bool) -> Iterator[str]:
    for turn in conversation_turns(conversation, sample_input):
        if turn.heading:
            yield f"{_INDENT}{turn.heading}"
        for block in turn.blocks:
            yield from _block(block.name, _value(block, reasoning))


def _value(block: Block, reasoning: bool) -> Any:
    if block.kind == "reasoning" and not reasoning:
        return f"({quantity(len(block.value), 'character')}; --reasoning prints them)"
    return block.value


def _block(name: str, value: Any) -> Iterator[str]:
    """Yield a value behind its name, further lines below the first."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, *more = text.splitlines() or [""]
    yield f"{_INDENT}{name:<{_ROLE}} {first}"
    for line in more:
        yield f"{_INDENT}{'':<{_ROLE}} {line}"


verbose_option = click.option("-v", "--verbose", count=True, help="Also methods and estimates; -vv the worst samples.")


@click.command("show", cls=WithPages)
@run_argument
@store_option
@verbose_option
@click.option(
    "--sample", metavar="ID", help="Show what each arm was sent for this sample and what it replied, turn by turn."
)
@click.option("--reasoning", is_flag=True, help="With --sample: print the model's reasoning too, not only its length.")
@json_option
def show(run: str, store: str, verbose: int, sample: str | None, reasoning: bool, as_json: bool) -> None:
    """Show a stored run: the stored replies are analysed again, with the verdicts that its session gave.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run is shown.
    """
    if reasoning and sample is None:
        raise SpecError("--reasoning prints the reasoning of one sample, and none was named: add --sample ID")
    with existing_store(store, reader="crucible show") as opened:
        run_id = opened.find_run(run)
        if sample is None:
            loaded = load_run(opened, run_id)
            print_run(add_stored_facts(loaded) if verbose or as_json else loaded, verbose, as_json=as_json)
        else:
            _print_sample(opened, run_id, sample, reasoning=reasoning, as_json=as_json)


def print_run(run: Run, verbose: int, *, as_json: bool) -> None:
    """Print what the session printed at its end."""
    print_result(map(printable, _run_lines(run, verbose)), run_document(run), as_json=as_json)


def verdict_status(run: Run) -> int:
    """Return the exit status that a run's verdicts give: 1 if one is missed, or cannot be given."""
    return int(any(verdict.state == "missed" or verdict.suite_error for verdict in run.verdicts))


def print_comparison(run: Run, verbose: int, notes: Sequence[str], *, as_markdown: bool, as_json: bool) -> None:
    """Print two runs or files that were compared: a sentence in plain words, then as `show` prints a run, and notes."""
    if as_markdown and as_json:
        raise SpecError("--markdown and --json are two forms of one result: write one of them")
    if as_markdown:
        lines = [render_markdown(run).rstrip(), *(f"\n- {plain(note)}" for note in notes)]
    else:
        lines = [printable(line) for line in (plain_sentence(run), "", *_run_lines(run, verbose), *notes)]
    print_result(lines, run_document(run), as_json=as_json)


def _run_lines(run: Run, verbose: int) -> list[str]:
    head = f"run {run.id}, started {run.started[:19].replace('T', ' ')} UTC"
    lines = [line.text for line in summary(run, verbosity=verbose, width=shutil.get_terminal_size().columns)]
    return [head, *_origins(run), "", *lines]


def _origins(run: Run) -> Iterator[str]:
    for file in run.environment.get("imported", ()):
        yield f"imported from {file['file']} ({' '.join((file['harness'], file['version'])).strip()})"


def _print_sample(store: RunStore, run: str, sample: str, *, reasoning: bool, as_json: bool) -> None:
    """Print the sample's conversations in every experiment of the run that has it. Raises SpecError where none has."""
    lines: list[str] = []
    documents: list[dict[str, Any]] = []
    for key, plan, _ in store.all_experiments(run):
        position = find_position(store, plan.dataset_sha256, sample)
        if position is not None and store.has_arms(key):
            stored = load_sample(store, plan.dataset_sha256, position)
            conversations = load_conversations(store, key, plan, position)
            lines += [
                *([""] if lines else []),
                *conversation_lines(plan.nodeid, stored, conversations, reasoning=reasoning),
            ]
            documents.append({"experiment": plan.nodeid, "sample": _document(stored), "conversations": conversations})
    if not documents:
        raise SpecError(f"run {run} has no sample {sample!r}: {_hint(store, run, sample)}")
    print_result((printable(line, A_LINE) for line in lines), {"run": run, "experiments": documents}, as_json=as_json)


def _document(stored: Any) -> dict[str, Any]:
    # The names of columns are the store's own; programs read these keys.
    names = {"id": "sample_id", "group": "sample_group"}
    return {name: stored[names.get(name, name)] for name in ("id", "group", "input", "expected", "metadata")}


def _hint(store: RunStore, run: str, sample: str) -> str:
    sample_ids = [
        sample_id
        for _, plan, _ in store.all_experiments(run)
        for sample_id in all_sample_ids(store, plan.dataset_sha256)
    ]
    if not sample_ids:
        return "none of its experiments began"
    first = f"the first of its {len(sample_ids):,} samples is {sample_ids[0]!r:.200}"
    return suggest(sample, sample_ids, otherwise=first)


@click.command("report")
@run_argument
@store_option
@click.option(
    "-o", "--output", "files", required=True, multiple=True, metavar="FILE", help="File to write; may be repeated."
)
@json_option
def write_reports(run: str, store: str, files: Sequence[str], as_json: bool) -> None:
    """Write report files of a stored run, each in the format of its extension.

    RUN is a run's id, or its beginning; by default the latest.
    """
    outputs = report_files(files, builtin.REPORTERS, Path())
    # Checked first: analysing a large run takes a while, and would be in vain if no file can be written.
    for output in outputs:
        check_writable(output)
    with existing_store(store, reader="crucible report") as opened:
        stored = add_stored_facts(load_run(opened, opened.find_run(run), decide_again=True))
        # The store stays open: some formats read replies of it.
        for output in outputs:
            try:
                write_report(output, stored)
            except SpecError as error:
                raise SpecError(f"report {str(output.path)!r} was not written: {error}") from error
    lines = [f"report of run {stored.id} written to {output.path}" for output in outputs]
    print_result(lines, {"run": stored.id, "files": [str(output.path) for output in outputs]}, as_json=as_json)
