"""The environment of agents: the host's keys are left out, whatever their names, and what programs need stays."""

from __future__ import annotations

import os

import pytest

from pytest_crucible.features.agents.environments import Host
from pytest_crucible.records.errors import Refused
from pytest_crucible.records.redaction import hider


def host(*keys: str, concurrency: int = 64) -> Host:
    return Host(hider(set(keys)), concurrency)


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "HF_TOKEN", "MY_SECRET", "DB_PASSWORD", "AWS_PROFILE", "OPENAI_BASE_URL", "SSH_AUTH_SOCK"],
)
def test_variables_with_the_name_of_a_key_are_left_out(monkeypatch, name):
    monkeypatch.setenv(name, "value")
    process = host()

    assert name not in process.variables()
    assert name in process.removed


def test_a_key_under_another_name_is_left_out_by_its_value(monkeypatch):
    monkeypatch.setenv("TEAM", "crucible-7")
    monkeypatch.setenv("URL", "https://host/?user=crucible-7")
    monkeypatch.setenv("LOOKS_LIKE", "sk-0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("CITY", "Delft")
    variables = host("crucible-7").variables()

    assert not {"TEAM", "URL", "LOOKS_LIKE"} & variables.keys()
    assert variables["CITY"] == "Delft"


def test_a_key_that_is_a_part_of_a_path_leaves_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/opt/runner/bin")

    assert "/opt/runner/bin" in host("runner").variables()["PATH"]


def test_the_keys_that_were_left_out_are_named_once(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "value")
    process = host()
    process.variables()

    assert "HF_TOKEN" in process.pop_note()
    assert process.pop_note() == ""


def test_variables_are_set_within_the_block_and_restored_after_an_error(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "before")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    with (
        pytest.raises(KeyError),
        host(concurrency=1).variables_set({"OPENAI_BASE_URL": "a", "ANTHROPIC_BASE_URL": "b"}),
    ):
        _raise_within({"OPENAI_BASE_URL": "a", "ANTHROPIC_BASE_URL": "b"})

    assert os.environ["OPENAI_BASE_URL"] == "before"
    assert "ANTHROPIC_BASE_URL" not in os.environ


def test_variables_of_a_process_with_several_samples_are_not_set():
    with (
        pytest.raises(Refused, match="in which 2 samples run at a time"),
        host(concurrency=2).variables_set({"A": "b"}),
    ):
        pass
    assert "A" not in os.environ


def _raise_within(variables: dict[str, str]) -> None:
    assert variables.items() <= os.environ.items()
    raise KeyError
