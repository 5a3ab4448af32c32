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
        "write one of guard, local, openai, recorded, scripted, tinker, vllm",
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


def test_a_file_of_replies_has_no_limits(odd):
    path = odd.path / "crucible.toml"
    path.write_text(path.read_text().replace("[adapters.v2]\n", "[adapters.v2]\nlimit = { concurrency = 2 }\n"))

    odd.refuses(
        odd.run("--crucible-adapter=v2"),
        "*adapter 'v2' has 'limit', but backend 'recorded' reads its replies from a file*",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[adapters.v2", "*crucible.toml cannot be read: *"),
        (
            '[adapters.v2]\nbackend = "scripted"\nscript = "nothing:here"',
            "adapter 'v2' has script 'nothing:here', which cannot be imported (No module named 'nothing'): "
            "write 'module:function' of a module on the path",
        ),
    ],
    ids=["toml", "script"],
)
def test_configuration(suite, text, sentence):
    (suite.path / "crucible.toml").write_text(text)

    suite.refuses(suite.run("--crucible-adapter=v2"), sentence)


def test_invalid_recorded_replies_are_refused_with_their_line(suite):
    (suite.path / "answers/v2.jsonl").write_text('{"sample_id": "q00", "text": 3}\n')

    suite.refuses(suite.run("--crucible-adapter=v2"), "line 1 of *v2.jsonl has a number as its 'text': write a string")
