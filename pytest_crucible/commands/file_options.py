"""Options of `crucible compare` and `crucible import`: roles of columns, groups, facts of metrics, and claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from pytest_crucible.commands.options import add_options
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import parse_amount


def _parse_column(text: str) -> tuple[str, str]:
    role, _, name = text.partition("=")
    if not name:
        raise SpecError(f"--column={text!r} cannot be read: write ROLE=NAME, such as sample=question_id")
    return role, name


def _parse_range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        # Not a number: every comparison with it is false, so the check below refuses it too.
        low = high = math.nan
    if not name or not low < high:
        raise SpecError(f"--range={text!r} cannot be read: write METRIC=LOW:HIGH, such as quality=1:5")
    return name, (low, high)


def _parse_reach(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        reach = float(number)
    except ValueError:
        reach = math.nan
    if not name or not 0 < reach < math.inf:
        raise SpecError(f"--reach={text!r} cannot be read: write METRIC=NUMBER, such as quality=0.25")
    return name, reach


def _parse_name(context: Any, option: Any, texts: Sequence[str]) -> tuple[str, ...]:
    if not all(text.strip() for text in texts):
        raise SpecError("--arms-differ-in has an empty name: write a setting such as temperature, messages or '*'")
    return tuple(dict.fromkeys(text.strip() for text in texts))


def _parse_each(parse: Callable[[str], tuple[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda context, option, texts: dict(map(parse, texts))


question_options = add_options(
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME[:lower|:higher]",
        help="Metric to compare, and which direction is better where nothing shows it; may be repeated.",
    ),
    click.option(
        "--margin", type=parse_amount, metavar="M", help="Largest acceptable loss, as in ab_compare: 0.05, or '10 %'."
    ),
    click.option("--alternative", type=click.Choice(ALTERNATIVES), help="Claim to test, as in ab_compare."),
    click.option(
        "--relevant",
        type=parse_amount,
        metavar="D",
        help="Smallest difference that matters, as in ab_compare: 0.02, or '10 %'.",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        callback=_parse_each(_parse_column),
        metavar="ROLE=NAME",
        help="Role of a table's column; may be repeated.",
    ),
    click.option(
        "--group",
        default="",
        metavar="KEY",
        help="Key of the samples' metadata, or column of a table: samples with one value of it are a group.",
    ),
    click.option(
        "--equal-inputs",
        type=click.Choice(["group", "keep"]),
        show_default="crucible_equal_inputs of pytest's configuration, else group",
        help="Samples with equal input, expected value and metadata: one group, or each counts alone.",
    ),
)
"""Options of the claims to test, and of the samples in the files."""
fact_options = add_options(
    click.option(
        "--range",
        "ranges",
        multiple=True,
        callback=_parse_each(_parse_range),
        metavar="METRIC=LOW:HIGH",
        help="Range of a metric's values; may be repeated.",
    ),
    click.option(
        "--reach",
        "reaches",
        multiple=True,
        callback=_parse_each(_parse_reach),
        metavar="METRIC=NUMBER",
        help="Largest change of one sample, between two arms, that is possible for a metric; may be repeated.",
    ),
    click.option(
        "--unpaired", is_flag=True, help="Each arm has samples of its own, such as episodes with other seeds."
    ),
    click.option(
        "--arms-differ-in",
        multiple=True,
        callback=_parse_name,
        metavar="NAME",
        help="Setting that the arms are compared for: temperature, messages (prompts), or '*' (all); may be repeated.",
    ),
)
"""Options of the facts about metrics and arms that no file has."""
