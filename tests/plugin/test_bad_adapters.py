"""Invalid adapters and replies: one sentence, exit status 4, and no request."""

from __future__ import annotations

import shutil

import pytest

ADAPTERS = {
    "near miss": (
        ("--crucible-adapter=copyy",),
        "adapter 'copyy' is not configured: did you mean 'copy'? known adapters are copy, gone, odd, pathless, v1, v2",
    ),
    "unknown": (
        ("--crucible-adapter=v2", "--compare=llama"),
        "adapter 'llama' is not configured: known adapters are copy, gone, odd, pathless, v1, v2",
    ),
    "none": (
        (),
        "test_sums.py::test_sums: no adapter to evaluate: give --crucible-adapter=NAME, or set crucible_adapter in "
        "pytest's configuration",
    ),
    "only a baseline": (
        ("--compare=v1",),
        "--compare=v1 has no candidate to compare with: name one with --crucible-adapter=NAME",
    ),
    "twice": (
        ("--crucible-adapter=v2", "--compare=v2"),
        "'v2' is named twice: compare an adapter with another one",
    ),
    "same": (
        ("--crucible-adapter=v2", "--compare=copy"),
        "adapters 'v2' and 'copy' are the same checkpoint (????????????): compare two that differ",
    ),
    "backend": (
        ("--crucible-adapter=odd",),
        "adapter 'odd' has backend 'gramophone', which neither the package nor a plugin provides: "
        "write one of guard, local, openai, recorded, scripted, tinker",
    ),
    "no path": (
        ("--crucible-adapter=pathless",),
        "adapter 'pathless' has backend 'recorded' but no 'path': add path = \"...\"",
    ),
    "no file": (
        ("--crucible-adapter=gone",),
        "recorded replies '*answers/gone.jsonl' do* not exist: give the path of a .jsonl file",
    ),
}


@pytest.fixture
def odd(suite):
    """The suite with adapters of every wrong kind."""
    shutil.copy(suite.path / "answers/v2.jsonl", suite.path / "answers/copy.jsonl")
    recorded = {name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2", "copy", "gone")}
    suite.adapters({**recorded, "odd": {"backend": "gramophone"}, "pathless": {"backend": "recorded"}})
    return suite


@pytest.mark.parametrize("mistake", ADAPTERS)
def test_adapters(odd, mistake):
    arguments, sentence = ADAPTERS[mistake]

    odd.refuses(odd.run(*arguments), sentence)


@pytest.mark.parametrize("mistake", ["near miss", "none"])
def test_adapters_on_two_workers(odd, mistake):
    arguments, sentence = ADAPTERS[mistake]

    odd.refuses(odd.run_n2(*arguments), sentence)


def test_without_any_configuration_the_place_for_it_is_named(suite):
    (suite.path / "crucible.toml").unlink()

    suite.refuses(
        suite.run("--crucible-adapter=v2"),
        "adapter 'v2' is not configured: no adapter is configured in this folder: run pytest in the folder of the suite, or add a "
        "table [[]adapters.NAME[]] to crucible.toml, or [[]tool.crucible.adapters.NAME[]] to pyproject.toml",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[adapters.v2", "*crucible.toml cannot be read: *"),
        ('adapters = "v2"', "*crucible.toml has adapters = 'v2': write one table an adapter, as in [[]adapters.v2[]]"),
        (
            "[adapters.v2]\nport = 1",
            "adapter 'v2' in *crucible.toml needs backend = \"...\" and, if any, parameters = *",
        ),
        (
            '[adapters.v2]\nbackend = "scripted"\nscript = "nothing:here"',
            "adapter 'v2' has script 'nothing:here', which cannot be imported (No module named 'nothing'): "
            "write 'module:function' of a module on the path",
        ),
    ],
    ids=["toml", "table", "backend", "script"],
)
def test_configuration(suite, text, sentence):
    (suite.path / "crucible.toml").write_text(text)

    suite.refuses(suite.run("--crucible-adapter=v2"), sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "recorded replies '*v2.jsonl' * empty: write one JSON object per line"),
        (
            '{"sample_id": "q00", "text": "0"}\n{"sample_id"\n',
            "line 2 of *v2.jsonl is not JSON (*): write one JSON object per line",
        ),
        ("[1]\n", "line 1 of *v2.jsonl is an array: write one object per line"),
        ('{"id": "q00"}\n', "line 1 of *v2.jsonl has no 'sample_id': recorded replies need 'sample_id' and 'text'"),
        (
            '{"sample_id": "q00", "text": 3}\n',
            "line 1 of *v2.jsonl has a number as its 'text': write a string",
        ),
    ],
    ids=["empty", "not JSON", "list", "fields", "type"],
)
def test_recorded_answers(suite, text, sentence):
    (suite.path / "answers/v2.jsonl").write_text(text)

    suite.refuses(suite.run("--crucible-adapter=v2"), sentence)
