"""`crucible calibrate --server`: whether a server gives equal requests equal replies."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.openai.backend import OpenAIBackend, open_openai
from pytest_crucible.backends.openai.probe import server_adapter
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.commands.server import server_options
from pytest_crucible.features.run_checks.repeatability import (
    MOST_PROMPTS,
    SAMPLES,
    Refusal,
    Repeatability,
    measure_all,
    prompts,
    settings,
)
from pytest_crucible.records import Request
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.stats.number_format import with_interval

HEADS = (
    *("equal requests", "replies", "unlike the most common"),
    *("changed the second time [95 % interval]", "n", "first difference"),
)
LEVEL = 0.95


@click.command("calibrate")
@server_options
@click.option("--prompts", "count", type=click.IntRange(1, MOST_PROMPTS), default=8, metavar="N", help="Prompts.")
@click.option("--repeats", type=click.IntRange(min=2), default=8, metavar="N", help="Replies to each prompt, at least.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=128, metavar="N", help="Tokens of a reply, at most.")
@click.option("--concurrency", type=click.IntRange(min=2), default=64, metavar="N", help="Requests at once.")
@json_option
def calibrate_server(
    url: str, model: str, key_env: str, count: int, repeats: int, max_tokens: int, concurrency: int, as_json: bool
) -> int:
    """Send the same few prompts again and again, and count the replies that differ.

    At temperature 0, and with equal seeds at temperature 1; one at a time, and many at once. Exits 1 where replies differ.
    """
    adapter = server_adapter(url, model, key_env)
    backend = open_openai(adapter, Path.cwd())
    # All requests may be open at once: how many the server sees is what is measured.
    context = BackendContext(limiters=Limiters(ordinary=concurrency))
    ways = settings(max_tokens=max_tokens, concurrency=concurrency)
    try:
        # The first request has no retries, so that a server that is not there is reported at once.
        asyncio.run(_try_server(backend, ways[0].parameters["max_tokens"]))
        results = measure_all(
            wrap_backend(backend, adapter, context),
            ways,
            prompts(count),
            repeats,
            LEVEL,
            lambda way: click.echo(f"measuring {describe_setting(way.name, way.concurrency)} ...", err=True),
        )
    except BackendError as error:
        raise SpecError(str(error)) from None
    head = f"{backend.model} at {backend.server.split()[0]}: {count} prompts, replies of at most {max_tokens} tokens"
    document = {
        "server": backend.server.split()[0],
        "model": backend.model,
        "max_tokens": max_tokens,
        "settings": results,
    }
    print_result([head, "", *result_lines(results)], document, as_json=as_json)
    return int(any(isinstance(result, Repeatability) and result.changed for result in results))


async def _try_server(backend: OpenAIBackend, max_tokens: int) -> None:
    request = Request(
        input=prompts(1)[0], sample="0", repeat=0, parameters={"temperature": 0, "max_tokens": max_tokens}
    )
    try:
        reply = await backend.generate(request)
    finally:
        await backend.close()
    if not (reply.text or reply.reasoning):
        raise BackendError(f"the reply to {request.input!r} is empty ({reply.finish}): increase --max-tokens")


def result_lines(results: Sequence[Repeatability | Refusal]) -> Iterator[str]:
    """Yield a table of the settings, and a sentence for each."""
    yield from aligned_lines([HEADS, *map(_row, results)], right=(1, 2, 4))
    yield ""
    yield from map(_sentence, results)


def describe_setting(name: str, concurrency: int) -> str:
    """Return how requests are sent, in words: `temperature 0, one at a time`."""
    return f"{name}, {'one at a time' if concurrency == 1 else f'{concurrency} at once'}"


def _title(result: Repeatability | Refusal) -> str:
    return describe_setting(result.setting, result.concurrency)


def _row(result: Repeatability | Refusal) -> tuple[str, ...]:
    if isinstance(result, Refusal):
        return _title(result), "0", "-", "-", "0", "-"
    places = result.first_differences
    middle = f"character {statistics.median_low(places):,} (from {min(places):,})" if places else "-"
    share = with_interval(result.share.value, result.share.interval)
    return _title(result), f"{result.replies:,}", f"{result.unlike_most:,}", share, f"{result.pairs:,}", middle


def _sentence(result: Repeatability | Refusal) -> str:
    """Return what the setting means for a score, with its bounds."""
    if isinstance(result, Refusal):
        return f"{_title(result)}: not measured, {result.reason}"
    interval = result.share.interval
    assert interval is not None
    assert result.share.value is not None
    if not result.changed:
        return (
            f"{_title(result)}: none of {result.pairs:,} replies was another the second time; of {SAMPLES} samples like these "
            f"at most {SAMPLES * interval.high:.1f} change from run to run"
        )
    noise, most = result.score_noise
    return (
        f"{_title(result)}: of {SAMPLES} samples like these about {SAMPLES * result.share.value:.0f} "
        f"[{SAMPLES * interval.low:.1f}, {SAMPLES * interval.high:.1f}] change their reply from run to run; a yes-or-no score "
        f"of {SAMPLES} samples then varies by at most {noise:.3f}, or {most:.3f} at the upper end (standard deviation of the "
        "difference of two runs)"
    )
