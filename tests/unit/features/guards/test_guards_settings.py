"""Tables of guards: what they may hold, and the sentences for what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_crucible.features.guards.guard import read_guard
from pytest_crucible.features.guards.kinds import OPTIONS
from pytest_crucible.features.guards.project_guards import Guards
from pytest_crucible.records.errors import SpecError


def guards_in(root: Path, text: str) -> Guards:
    (root / "crucible.toml").write_text(text)
    return Guards(root)


def test_defaults():
    guard = read_guard("inj", {"kind": "rules"}, OPTIONS)

    assert (guard.threshold, guard.action, guard.redaction, guard.on_error) == (0.75, "block", "placeholder", "lost")
    assert guard.place == "guards.inj"


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("inj", "rules", "write a table"),
        ("inj", {}, "neither kind nor any"),
        ("inj", {"kind": "rules", "any": ["pii"]}, "both kind and any"),
        ("inj", {"kind": "ruels"}, "did you mean 'rules'?"),
        ("inj", {"kind": "rules", "patern": []}, "did you mean 'patterns'?"),
        ("inj", {"kind": "rules", "threshold": 2}, "expected a number above 0 and at most 1"),
        ("inj", {"kind": "rules", "threshold": True}, "expected a number above 0 and at most 1"),
        ("inj", {"any": ["pii"], "threshold": 0.5}, "its guards have their own"),
        ("inj", {"any": []}, "write a list of guards"),
        ("inj", {"kind": "rules", "action": "drop"}, 'write "block" or "redact"'),
        ("inj", {"kind": "rules", "redaction": "x"}, 'write "mask" or "partial" or "placeholder" or "hash"'),
        ("inj", {"kind": "rules", "on_error": "x"}, 'write "lost" or "block" or "pass"'),
        ("inj", {"kind": "rules", "stand_in": 1}, "write a text"),
    ],
)
def test_bad_tables_are_refused(name, table, message):
    with pytest.raises(SpecError) as error:
        read_guard(name, table, OPTIONS)

    assert f"guards.{name}" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ('[guards.inj]\nkind = "rules"', "ijn", "unknown guard 'ijn': did you mean 'inj'?"),
        ("", "inj", "no guard is configured"),
        ('[guards.a]\nany = ["b"]', "a", "unknown guard 'b' in guards.a"),
        ('[guards.a]\nany = ["b"]\n[guards.b]\nany = ["a"]', "a", "guards.a contains itself (a > b > a)"),
        ('[guards.a]\nkind = "linear"', "a", "guards.a has kind = \"linear\" but no 'path'"),
        ('[guards.a]\nkind = "linear"\npath = "no.safetensors"', "a", "guards.a: "),
        ('[guards.a]\nkind = "rules"\nthreshold = "no.json"', "a", "guards.a: the threshold"),
        ('[guards.a]\nkind = "rules"\nthreshold = "crucible.toml"', "a", "cannot be read"),
        ('[guards.a]\nkind = "pii"\ntypes = ["EMAIL_ADRESS"]', "a", "did you mean 'EMAIL_ADDRESS'?"),
        ('[guards.a]\nkind = "pii"\ntypes = []', "a", "write a list"),
        ('[guards.a]\nkind = "pii"\nphones = "x"', "a", "write one of auto, context, phonenumbers"),
        ('[guards.a]\nkind = "nowhere:f"', "a", "cannot be imported"),
        ('[guards.a]\nkind = "judge"\nadapter = "x"\nquestion = "y"', "a", "can only be queried in a pytest session"),
    ],
)
def test_guards_that_cannot_be_opened_give_the_reason(tmp_path, text, name, message):
    with pytest.raises(SpecError) as error:
        guards_in(tmp_path, text).open(name)

    assert message in str(error.value)


def test_identities_follow_everything_that_changes_a_detection(tmp_path):
    tables = {
        "a": 'kind = "rules"', "b": 'kind = "rules"\nthreshold = 0.9', "c": 'kind = "rules"\npatterns = ["x"]',
        "d": 'kind = "pii"', "e": 'kind = "pii"\ntypes = ["URL"]', "f": 'any = ["a", "d"]', "g": 'any = ["b", "d"]',
        "h": 'kind = "pii"\nredaction = "mask"',
    }  # fmt: skip
    guards = guards_in(tmp_path, "".join(f"[guards.{name}]\n{table}\n" for name, table in tables.items()))
    again = Guards(tmp_path)

    assert len({guards.open(name).identity for name in tables}) == len(tables)
    assert all(guards.open(name).identity == again.open(name).identity for name in tables)
