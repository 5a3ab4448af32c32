"""The option --crucible-executor."""

from __future__ import annotations

import pytest

from pytest_crucible.features.scale.executor_options import ExecutorOptions, check_options, parse_executor
from pytest_crucible.records.errors import SpecError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("ray", ExecutorOptions("ray")),
        ("auto?per_node=2", ExecutorOptions("auto", per_node=2)),
        ("ray://gpu-1:10001?concurrency=8", ExecutorOptions("ray://gpu-1:10001", concurrency=8)),
    ],
)
def test_an_executor_is_a_place_and_a_size(text, options):
    assert parse_executor(text) == options


@pytest.mark.parametrize(
    "text",
    [
        *("rey", "ray://gpu-1", "ray://:10001", "ray://gpu-1:99999", "ray://gpu-1:0", "ray://gpu-1:²"),
        *("ray?per_node=0", "ray?per_node=", "ray?cpus=2", "ray?per_node=²", "ray?per_node=1000000"),
        f"ray?concurrency={'9' * 5000}",
    ],
)
def test_other_values_are_refused_with_what_is_expected(text):
    with pytest.raises(SpecError, match=r"^--crucible-executor=.*expected"):
        parse_executor(text)


def test_one_sample_alone_is_not_sent_from_a_cluster():
    wrong = [
        sentence for is_wrong, sentence in check_options({"executor": "ray", "sample": "s1", "shard": None}) if is_wrong
    ]

    # Before it, that Ray is missing, where it is.
    assert wrong[-1] == (
        "--crucible-executor sends samples from a cluster, and --crucible-sample one from here: leave one out"
    )
