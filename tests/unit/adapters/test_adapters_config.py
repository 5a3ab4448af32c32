"""Finding adapters in configuration files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_crucible import Adapter, SpecError
from pytest_crucible.adapters.config import find_adapter, read_adapters

V1 = Adapter(name="v1", backend="recorded", options={"path": "v1.jsonl"})
V2 = Adapter(name="v2", backend="recorded", options={"path": "v2.jsonl"}, parameters={"temperature": 0.0})
CRUCIBLE_TOML = """
[adapters.v2]
backend = "recorded"
path = "v2.jsonl"
parameters = { temperature = 0.0 }
"""
PYPROJECT_TOML = """
[tool.crucible.adapters.v1]
backend = "recorded"
path = "v1.jsonl"
"""


def refusal(function, *arguments) -> str:
    with pytest.raises(SpecError) as caught:
        function(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("own", "project", "expected"),
    [(CRUCIBLE_TOML, None, {"v2": V2}), (None, PYPROJECT_TOML, {"v1": V1}), (CRUCIBLE_TOML, PYPROJECT_TOML, {"v2": V2}),
     ("", PYPROJECT_TOML, {})],
    ids=["crucible.toml", "pyproject.toml", "both", "an empty crucible.toml"],
)  # fmt: skip
def test_adapters_are_read_from_one_file(tmp_path, own, project, expected):
    for name, content in (("crucible.toml", own), ("pyproject.toml", project)):
        if content is not None:
            (tmp_path / name).write_text(content)

    assert read_adapters(tmp_path) == expected


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ('trained_on = ["old.jsonl"]', {"trained_on": ("old.jsonl",)}),
        ('variables = { prompt = "terse.txt", tone = 3 }', {"variables": {"prompt": "terse.txt", "tone": 3}}),
    ],
    ids=["trained_on", "variables"],
)
def test_training_files_and_variables_are_no_options(tmp_path, line, facts):
    (tmp_path / "crucible.toml").write_text(f"{CRUCIBLE_TOML}{line}\n")

    assert read_adapters(tmp_path) == {"v2": replace(V2, **facts)}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("trained_on = 3", "has trained_on = 3: write a list of files"),
        ("variables = 3", "has variables = 3: write a table"),
        (
            "variables = { prompt = 3 }",
            "has variables.prompt = 3: write the name of a file, or the text itself",
        ),
    ],
)
def test_invalid_training_files_and_variables_are_refused(tmp_path, line, sentence):
    (tmp_path / "crucible.toml").write_text(f"{CRUCIBLE_TOML}{line}\n")

    assert sentence in refusal(read_adapters, tmp_path)


@pytest.mark.parametrize("content", [None, "", "[tool.other]\nx = 1\n", "[tool.crucible]\nx = 1\n"])
def test_a_project_may_have_no_adapters(tmp_path, content):
    if content is not None:
        (tmp_path / "pyproject.toml").write_text(content)

    assert read_adapters(tmp_path) == {}


@pytest.mark.parametrize("name", ["crucible.toml", "pyproject.toml"])
def test_a_file_that_is_not_toml(tmp_path, name):
    (tmp_path / name).write_text("[adapters.v2\n")

    assert refusal(read_adapters, tmp_path).startswith(f"{tmp_path / name} cannot be read: Expected ']'")


def test_a_file_in_another_encoding(tmp_path):
    (tmp_path / "crucible.toml").write_bytes('name = "naïve"\n'.encode("latin-1"))

    assert "crucible.toml cannot be read: 'utf-8' codec can't decode byte" in refusal(read_adapters, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("crucible.toml", 'adapters = "v2"', "adapters = 'v2': write one table an adapter, as in [adapters.v2]"),
        (
            "pyproject.toml",
            "[tool.crucible]\nadapters = 1",
            "adapters = 1: write one table an adapter, as in [adapters.v2]",
        ),
        ("pyproject.toml", '[tool]\ncrucible = "v2"', "crucible = 'v2': write a table, as in [crucible]"),
    ],
    ids=["own", "pyproject", "tool"],
)
def test_a_value_where_a_table_belongs(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)

    assert refusal(read_adapters, tmp_path) == f"{tmp_path / name} has {sentence}"


@pytest.mark.parametrize(
    "content",
    [
        '[adapters.v2]\npath = "v2.jsonl"',
        "[adapters.v2]\nbackend = 3",
        '[adapters.v2]\nbackend = "recorded"\nparameters = 0.7',
        "[adapters]\nv2 = 3",
    ],
    ids=["no-backend", "backend-number", "parameters-number", "no-table"],
)
def test_an_adapter_that_says_too_little(tmp_path, content):
    (tmp_path / "crucible.toml").write_text(content)

    assert refusal(read_adapters, tmp_path) == (
        f"adapter 'v2' in {tmp_path / 'crucible.toml'} needs backend = \"...\" and, if any, parameters = {{ ... }}"
    )


def test_a_uri_stands_for_backend_and_model(tmp_path):
    (tmp_path / "crucible.toml").write_text(
        """
        [adapters]
        v1 = "recorded:answers/v1.jsonl"
        v2 = "tinker://RUN/sampler_weights/v2"
        v3 = { uri = "local:v3", parameters = { max_tokens = 6 } }
        v4 = { uri = "openai+http://h:1/v1#m", timeout_s = 3.0 }
        """
    )
    adapters = read_adapters(tmp_path)

    assert {name: (adapter.backend, adapter.options, adapter.parameters) for name, adapter in adapters.items()} == {
        "v1": ("recorded", {"path": "answers/v1.jsonl"}, {}),
        "v2": ("tinker", {"model_path": "tinker://RUN/sampler_weights/v2"}, {}),
        "v3": ("local", {"checkpoint": "v3"}, {"max_tokens": 6}),
        "v4": ("openai", {"base_url": "http://h:1/v1", "model": "m"}, {}),
    }
    assert adapters["v4"].asking == {"timeout_s": 3.0}


@pytest.mark.parametrize(
    "content",
    ['v2 = "recorded"', 'v2 = "ftp:x"', "v2 = { uri = 3 }", 'v2 = { uri = "local:x", backend = "local" }'],
)
def test_an_empty_uri_is_refused(tmp_path, content):
    (tmp_path / "crucible.toml").write_text(f"[adapters]\n{content}\n")

    sentence = refusal(read_adapters, tmp_path)
    assert (
        "write recorded:..., local:..., tinker:..., openai+http:..., openai+https:..., guard:..., and no backend beside it"
        in sentence
    )


def test_an_adapter_is_found_by_its_name():
    assert find_adapter("v2", {"v1": V1, "v2": V2}) == V2


@pytest.mark.parametrize(
    ("uri", "backend", "options"),
    [
        ("recorded:answers/v2.jsonl", "recorded", {"path": "answers/v2.jsonl"}),
        ("recorded:/data/a:b.jsonl", "recorded", {"path": "/data/a:b.jsonl"}),
        ("openai+https://models.example/v1#v2", "openai", {"base_url": "https://models.example/v1", "model": "v2"}),
    ],
)
def test_a_uri_is_an_adapter_by_itself(uri, backend, options):
    assert find_adapter(uri, {}) == Adapter(name=uri, backend=backend, options=options)


def test_a_server_needs_a_model():
    assert refusal(find_adapter, "openai+http://host/v1", {}) == (
        "adapter 'openai+http://host/v1' names no model: write openai+http://host/v1#MODEL"
    )


def test_a_configured_name_comes_before_an_address():
    named = Adapter(name="recorded:x", backend="scripted")

    assert find_adapter("recorded:x", {"recorded:x": named}) is named


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("candidat", "did you mean 'candidate'? known adapters are baseline, candidate"),
        ("other", "known adapters are baseline, candidate"),
        ("http://127.0.0.1:8000/v1", "write openai+http://127.0.0.1:8000/v1#MODEL for a model of a server"),
        ("grpc:x", "known adapters are baseline, candidate"),
        ("recorded:", "known adapters are baseline, candidate"),
    ],
    ids=["near", "far", "server", "scheme", "address"],
)
def test_an_unknown_adapter_is_refused_with_those_that_are_known(name, hint):
    adapters = {"candidate": V1, "baseline": V2}

    assert refusal(find_adapter, name, adapters) == f"adapter {name!r} is not configured: {hint}"


def test_without_any_adapters_it_is_said_where_they_belong():
    assert refusal(find_adapter, "v2", {}) == (
        "adapter 'v2' is not configured: no adapter is configured in this folder: run pytest in the folder of the suite, or "
        "add a table [adapters.NAME] to crucible.toml, or [tool.crucible.adapters.NAME] to pyproject.toml"
    )


def test_the_example_of_the_module_is_one(tmp_path: Path):
    from pytest_crucible.adapters import config

    (tmp_path / "crucible.toml").write_text((config.__doc__ or "").split("\n\n", 1)[1])

    assert read_adapters(tmp_path)["v2"].parameters == {"temperature": 0.0}
