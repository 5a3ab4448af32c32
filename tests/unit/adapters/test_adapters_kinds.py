"""The table of kinds, and that a further kind is one row."""

from __future__ import annotations

import pytest
from adapter_contexts import context_in

from pytest_crucible.adapters.adapter_kind import UriForm, read_rest
from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.feature_rows import find_preparation
from pytest_crucible.adapters.kinds import KINDS, AdapterKind, all_kinds, kind_of
from pytest_crucible.adapters.opener import Opener
from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.features import load_rows
from pytest_crucible.records import Adapter


def test_every_kind_can_be_opened():
    nothing = AdapterKind(name="nothing")

    assert all(kind.open is not nothing.open for kind in all_kinds().values())


def test_the_names_that_backend_may_have():
    assert sorted(all_kinds()) == ["guard", "local", "openai", "recorded", "scripted", "tinker", "vllm"]


def test_two_kinds_share_no_name_and_no_scheme():
    all_rows = [*KINDS, *(kind for _, kind in load_rows("adapter_kinds"))]
    schemes = [scheme for kind in all_rows if kind.uri for scheme in kind.uri.schemes]

    assert len({kind.name for kind in all_rows}) == len(all_rows)
    assert len(set(schemes)) == len(schemes)


def test_a_kind_of_users_has_no_abilities(tmp_path):
    kind, adapter = kind_of(Adapter(name="v2", backend="theirs")), Adapter(name="v2", backend="theirs")

    assert not any((kind.is_seeded, kind.is_offline, kind.is_free, find_preparation(adapter)))
    assert kind.open(adapter, context_in(tmp_path)) is None
    assert kind.locate(adapter, context_in(tmp_path), {}, tmp_path) is adapter


def open_echo(adapter: Adapter, context: object) -> ScriptedBackend:
    """The module of a further kind."""
    return ScriptedBackend(lambda request: str(request.input), identity=adapter.options["voice"])


@pytest.fixture
def echo(monkeypatch):
    """A further kind: one row."""
    row = AdapterKind(name="echo", open=open_echo, uri=UriForm(("echo",), read_rest("voice")), is_seeded=True)
    monkeypatch.setitem(all_kinds(), "echo", row)


@pytest.mark.usefixtures("echo")
def test_a_further_kind_is_one_row(tmp_path):
    (tmp_path / "crucible.toml").write_text('[adapters]\nv2 = "echo:low"\n')

    opened = Opener(context_in(tmp_path, seed=7)).open("v2", "candidate")

    assert (opened.arm.adapter, opened.arm.identity, opened.arm.parameters) == ("echo:v2", "low", {"seed": 7})
    assert find_adapter("echo:high", {}).options == {"voice": "high"}
    assert read_adapters(tmp_path)["v2"].backend == "echo"
