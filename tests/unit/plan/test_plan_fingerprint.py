"""The fingerprint of stored replies: all that the test function reads of what its author wrote, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from pytest_crucible import Metric, metric
from pytest_crucible.plan.fingerprint import differences, fingerprint, metric_version
from pytest_crucible.records import Fingerprint, Sample
from pytest_crucible.records.function_source import sources

SUITE = """
PROMPT = "Answer in one word: "
WORDS = {"yes", "no"}
EXTRA = "."
MORE = "?"
UNUSED = 1


def shorten(text):
    return text[:LIMIT]


LIMIT = 10


def outer(suffix):
    def inner(sample):
        return PROMPT + sample + suffix

    return inner


async def test_words(sample, sampler, extra=EXTRA, *, more=MORE):
    def ask(text):
        return PROMPT + text + extra + more

    return shorten(await sampler.generate(ask(sample.input))) in WORDS


def unrelated():
    return UNUSED


class Judge:
    strictness = 1

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, reply, sample):
        return len(reply.text) <= self.limit
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., ModuleType]:
    """Imports the suite, or an edited one."""
    count = iter(range(100))

    def load_module(old: str = "", new: str = "", *, folder: str = "") -> ModuleType:
        assert old in SUITE
        path = tmp_path / folder / f"suite_{next(count)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SUITE.replace(old, new) if old else SUITE)
        spec = importlib.util.spec_from_file_location("suite", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_module


def function_hash(function: Callable[..., Any], case: str = "") -> str:
    return fingerprint(dataset="d", function=function, case=case, metrics=(), sampling={}).function


def test_the_same_suite_in_another_place_is_the_same(load):
    assert function_hash(load().test_words) == function_hash(load().test_words)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("in WORDS", "not in WORDS"),
        ("one word", "two words"),
        ('{"yes", "no"}', '{"yes", "no", "maybe"}'),
        ("text[:LIMIT]", "text[-LIMIT:]"),
        ("LIMIT = 10", "LIMIT = 11"),
        ('EXTRA = "."', 'EXTRA = "!"'),
        ('MORE = "?"', 'MORE = "!"'),
    ],
    ids=["source", "constant-in-nested-function", "set", "helper", "constant-of-helper", "default", "named-default"],
)
def test_what_the_function_depends_on_is_part_of_it(load, old, new):
    assert function_hash(load(old, new).test_words) != function_hash(load().test_words)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return UNUSED", "return -UNUSED"),
        ("UNUSED = 1", "UNUSED = 2"),
        ("strictness = 1", "strictness = 2"),
        ("sample, sampler, extra=EXTRA", "sample,  # a comment\n    sampler, extra=EXTRA"),
    ],
    ids=["function", "constant", "class", "comment"],
)
def test_what_the_function_does_not_read_is_no_part_of_it(load, old, new):
    assert function_hash(load(old, new).test_words) == function_hash(load().test_words)


def test_a_value_in_the_closure_is_part_of_it(load):
    suite = load()

    assert function_hash(suite.outer("!")) != function_hash(suite.outer("?"))


def test_the_parametrised_case_is_part_of_it(load):
    function = load().test_words

    assert function_hash(function, case="short") != function_hash(function, case="long")


def test_a_decorator_that_wraps_does_not_hide_the_function(load):
    def wrap(function):
        @functools.wraps(function)
        def wrapper(*arguments, **options):
            return function(*arguments, **options)

        return wrapper

    changed = load("in WORDS", "not in WORDS").test_words

    assert function_hash(wrap(changed)) != function_hash(wrap(load().test_words))


def test_functions_that_call_each_other_end(load):
    suite = load("text[:LIMIT]", "text[:LIMIT] or test_words")

    assert function_hash(suite.test_words) != function_hash(load().test_words)


def test_the_arguments_of_a_partial_function_are_part_of_it(load):
    partial = functools.partial(load().shorten, text="abc")

    assert function_hash(partial) == function_hash(functools.partial(load().shorten, text="abc"))
    assert function_hash(partial) != function_hash(functools.partial(load().shorten, text="abd"))


def test_the_attributes_and_the_source_of_an_object_are_part_of_it(load):
    judge = load().Judge(3)

    assert function_hash(judge) == function_hash(load().Judge(3))
    assert function_hash(judge) != function_hash(load().Judge(4))
    assert function_hash(judge) != function_hash(load("<= self.limit", "< self.limit").Judge(3))


def test_a_builtin_function_has_a_name():
    assert function_hash(len) != function_hash(abs)


def test_every_process_computes_the_same(tmp_path):
    """The order of a set of words changes from process to process."""
    (tmp_path / "suite.py").write_text(SUITE)
    code = (
        "import suite; from pytest_crucible.plan.fingerprint import fingerprint as f\n"
        "print(f(dataset='', function=suite.test_words, case='', metrics=(), sampling={}).function)"
    )
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2", "3"))
    command = [sys.executable, "-c", code]
    digests = {subprocess.check_output(command, cwd=tmp_path, env=environment) for environment in environments}

    assert len(digests) == 1


# -- metrics, sampling and words ----------------------------------------------------------------------------------


def metrics_fingerprint(*metrics: Metric) -> str:
    return fingerprint(dataset="d", function=metrics_fingerprint, case="", metrics=metrics, sampling={}).metrics


def short(reply, sample):
    return len(reply.text) < 10


def shorter(reply, sample):
    return len(reply.text) < 9


def test_a_declared_version_is_the_version():
    assert metric_version(metric(version="7")(short)) == "7"


def test_without_a_version_the_source_decides():
    item, other = metric(name="short")(short), metric(name="short")(shorter)

    assert metric_version(item) != metric_version(other)


def test_another_version_or_metric_is_a_difference():
    item = metrics_fingerprint(metric(version="1")(short))

    assert item != metrics_fingerprint(metric(version="2")(short))
    assert item != metrics_fingerprint(metric(version="1")(shorter))
    assert item != metrics_fingerprint()


def test_the_order_of_metrics_is_no_difference():
    first, second = metric(short), metric(shorter)

    assert metrics_fingerprint(first, second) == metrics_fingerprint(second, first)


def test_how_replies_are_sampled_is_a_part():
    item, other = (
        fingerprint(dataset="d", function=short, case="", metrics=(), sampling={"timeout_s": timeout_s})
        for timeout_s in (1.0, 2.0)
    )

    assert differences(item, other) == ["sampling parameters"]


def test_differences_are_named_in_words():
    fingerprint = Fingerprint(dataset="a", function="b", metrics="c", sampling="d")

    assert differences(fingerprint, fingerprint) == []
    assert differences(fingerprint, dataclasses.replace(fingerprint, metrics="x")) == ["metrics"]
    names = ["dataset rows", "test function", "metrics", "sampling parameters"]
    assert differences(fingerprint, Fingerprint(dataset="w", function="x", metrics="y", sampling="z")) == names


# -- classes and other modules ------------------------------------------------------------------------------------


class _Suite:
    PROMPT = "Answer briefly."

    def question(self, sample: Sample) -> str:
        return f"{self.PROMPT} {self.show(sample)}"

    def show(self, sample: Sample) -> str:
        return str(sample.input)


class _OtherPrompt(_Suite):
    PROMPT = "Think step by step."


class _OtherMethod(_Suite):
    def show(self, sample: Sample) -> str:
        return repr(sample.input)


class _OtherName(_Suite):
    UNUSED = "and is not read"


def of_class(owner: type) -> list[str]:
    return [source.replace(owner.__name__, "") for source in sources(_Suite.question, owner)]


@pytest.mark.parametrize("owner", [_OtherPrompt, _OtherMethod])
def test_what_a_method_reads_of_its_class_is_part_of_it(owner):
    assert of_class(owner) != of_class(_Suite)


def test_what_a_method_does_not_read_of_its_class_is_no_part_of_it():
    assert of_class(_OtherName) == of_class(_Suite)


def reading(expression: str, **names: Any) -> FunctionType:
    """A function of another module, in which these names are known."""
    return FunctionType(compile(expression, "suite", "eval"), names)


def test_a_constant_of_a_module_that_is_named_is_part_of_it():
    prompts = ModuleType("prompts")
    prompts.SYSTEM, prompts.UNUSED = "one", 1  # type: ignore[attr-defined]
    reader = reading("prompts.SYSTEM", prompts=prompts)
    before = function_hash(reader)
    prompts.UNUSED = 2  # type: ignore[attr-defined]

    assert function_hash(reader) == before
    prompts.SYSTEM = "two"  # type: ignore[attr-defined]
    assert function_hash(reader) != before


IMPORTED = {
    "function": lambda suite: reading("shorten('')", shorten=suite.shorten),
    "module": lambda suite: reading("suite.shorten('')", suite=suite),
}


@pytest.mark.parametrize("imported", IMPORTED.values(), ids=IMPORTED.keys())
@pytest.mark.parametrize(
    ("old", "new"), [("text[:LIMIT]", "text[-LIMIT:]"), ("LIMIT = 10", "LIMIT = 11")], ids=["source", "constant"]
)
def test_an_imported_function_of_the_users_own_is_part_of_it(load, imported, old, new):
    assert function_hash(imported(load())) == function_hash(imported(load()))
    assert function_hash(imported(load(old, new))) != function_hash(imported(load()))


def test_an_installed_function_is_part_of_it_by_its_name_alone(load):
    reader = IMPORTED["function"]
    changed = load("text[:LIMIT]", "text[-LIMIT:]", folder="site-packages")

    assert function_hash(reader(changed)) == function_hash(reader(load(folder="site-packages")))
