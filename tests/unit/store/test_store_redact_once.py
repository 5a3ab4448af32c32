"""Each text is redacted once, as long as it is remembered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.redaction import hider
from pytest_crucible.store import redactors
from pytest_crucible.store.redactors import SHORTEST, RedactOnce

texts = st.one_of(st.text(max_size=20), st.text(min_size=SHORTEST, max_size=2 * SHORTEST))


@given(st.lists(texts, max_size=20), st.lists(st.integers(0, 19), max_size=40))
def test_it_returns_what_redaction_returns(drawn, order):
    hide = hider({"a", "secret"})
    once = RedactOnce(hide)

    assert [once(drawn[k]) for k in order if k < len(drawn)] == [hide(drawn[k]) for k in order if k < len(drawn)]


def test_a_copy_of_a_text_is_the_same_text():
    calls: list[str] = []
    once = RedactOnce(lambda text: calls.append(text) or text.upper())

    assert once("x" * SHORTEST) == once("".join(["x"] * SHORTEST)) == "X" * SHORTEST
    assert len(calls) == 1


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(redactors, "MOST_TEXTS", 10)
    monkeypatch.setattr(redactors, "MOST_CHARACTERS", 50 * SHORTEST)
    once = RedactOnce(str)
    for k in range(1_000):
        once(f"{k:0{SHORTEST}}")
        assert len(once._young) + len(once._old) <= 20
    for k in range(100):
        once(f"{k:0{40 * SHORTEST}}")
        assert sum(map(len, [*once._young, *once._old])) <= 4 * 50 * SHORTEST
