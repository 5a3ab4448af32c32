"""The backend for tests, and how configuration opens one."""

from __future__ import annotations

import asyncio

import pytest
from adapter_contexts import context_in
from virtual_time import in_virtual_time

from pytest_crucible import BackendError, Reply, Request, ScriptedBackend, SpecError
from pytest_crucible.adapters.kinds import open_recorded, open_scripted
from pytest_crucible.records import Adapter

REQUEST = Request(input="2 + 2", sample="a", repeat=0)


def four(request):
    return "4"


def five(request):
    return "5"


def ask(backend) -> Reply:
    return asyncio.run(backend.generate(REQUEST))


def test_string_becomes_a_reply():
    reply = ask(ScriptedBackend(four, latency_s=0.01))

    assert reply == Reply(text="4", latency_s=reply.latency_s)
    assert reply.latency_s >= 0.009


def test_reply_is_returned_unchanged():
    reply = Reply(text="4", output_tokens=1)

    assert ask(ScriptedBackend(lambda request: reply)) is reply


@pytest.mark.parametrize(("answer", "kind"), [(None, "None"), (4, "a number")])
def test_script_must_return_text_or_reply(answer, kind):
    with pytest.raises(BackendError) as caught:
        ask(ScriptedBackend(lambda request: answer))

    assert str(caught.value) == f"the script returned {kind}: return a string or a Reply"


@in_virtual_time
async def test_latency_does_not_block():
    backend = ScriptedBackend(four, latency_s=0.2)
    await asyncio.gather(*(backend.generate(REQUEST) for _ in range(10)))

    assert asyncio.get_running_loop().time() == pytest.approx(0.2)


def test_equal_scripts_have_one_identity():
    assert ScriptedBackend(four).identity == ScriptedBackend(four).identity
    assert ScriptedBackend(four).identity != ScriptedBackend(five).identity


def test_explicit_identity_is_used():
    assert ScriptedBackend(four, identity="v2").identity == "v2"


def test_script_without_source_has_an_identity():
    assert ScriptedBackend(str).identity != ScriptedBackend(repr).identity


# -- from configuration -------------------------------------------------------------------------------------------


def adapter(backend: str = "scripted", **options) -> Adapter:
    return Adapter(name="v2", backend=backend, options=options)


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A module on the path."""
    (tmp_path / "scripts_of_v2.py").write_text("def answer(request):\n    return '4'\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_script_is_imported_by_name(scripts):
    assert ask(open_scripted(adapter(script="scripts_of_v2:answer"), context_in(scripts))).text == "4"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("nowhere_at_all:answer", "No module named 'nowhere_at_all'"),
        ("scripts_of_v2:reply", "module 'scripts_of_v2' has no attribute 'reply'"),
        ("scripts_of_v2", "module 'scripts_of_v2' has no attribute ''"),
        (":answer", "Empty module name"),
    ],
    ids=["module", "function", "no-function", "no-module"],
)
def test_missing_script_is_refused(scripts, script, reason):
    with pytest.raises(SpecError) as caught:
        open_scripted(adapter(script=script), context_in(scripts))

    assert str(caught.value) == (
        f"adapter 'v2' has script {script!r}, which cannot be imported ({reason}): "
        "write 'module:function' of a module on the path"
    )


@pytest.mark.parametrize(
    ("opener", "backend", "option"), [(open_scripted, "scripted", "script"), (open_recorded, "recorded", "path")]
)
@pytest.mark.parametrize("value", [None, 3], ids=["absent", "number"])
def test_adapter_without_script_is_refused(tmp_path, opener, backend, option, value):
    options = {} if value is None else {option: value}

    with pytest.raises(SpecError) as caught:
        opener(adapter(backend, **options), context_in(tmp_path))

    assert str(caught.value) == (f"adapter 'v2' has backend {backend!r} but no {option!r}: add {option} = \"...\"")
