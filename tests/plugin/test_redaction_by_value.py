"""What --crucible-redact has found anywhere in a run is hidden everywhere in it: variants, replies, logs, names, caches, other workers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from test_secret_places import cells

from pytest_crucible.guards.normalise import normalise, read_forms

TABLES = """
[guards.keys]
kind = "secrets"

[adapters.v2]
backend = "scripted"
script = "parrot:answer"
"""
PASSWORDS = ("tr0ub4dor3xyz", "Corr3ct-Horse-9", "wehgoqmtzs42", "Zug!Spitze2962", "pl4typus_lagoon")
ROWS = [
    {"id": f"s{k}", "input": f"Please log me in, password: {password} and tell me the weather in Kiel today", "expected": "-"}
    for k, password in enumerate(PASSWORDS)
]
ATTACKS = ("character_swap", "character_delete", "character_insert", "homoglyph", "keyboard_typo", "case_noise", "whitespace_noise",
           "word_shuffle", "word_insertion", "jailbreak_encode", "prompt_injection_basic")  # fmt: skip


def readable(text: str, password: str) -> bool:
    """Whether a person could still read the password: itself, disguised, or with a letter changed."""
    known = "".join(map(normalise, password))
    if any(known in "".join(map(normalise, form)) for form in (text, *read_forms(text))):
        return True
    words = [normalise(word) for word in re.split(r"[\s\"'<>,.:]+", text)]
    return any(SequenceMatcher(None, known, word).ratio() >= 0.75 for word in words)


def stored_twins(path: Path) -> list[tuple[str, int, str]]:
    with closing(sqlite3.connect(path / ".crucible" / "crucible.db")) as connection:
        query = "select v.name, t.position, t.input from twins t join variants v on v.sha256 = t.variant where t.input is not null"
        return sorted(set(connection.execute(query)))


@pytest.fixture
def redacted(suite):
    (suite.path / "crucible.toml").write_text(TABLES)
    suite.pytester.makepyfile(parrot="def answer(request):\n    return f'you said {request.input}'")
    suite.write_rows("rows.jsonl", ROWS)
    return suite


def test_no_draw_of_an_attack_shows_a_password_of_the_clean_prompt(redacted):
    redacted.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="rows.jsonl", metrics=["exact_match"])
        @pytest.mark.robustness(*{ATTACKS!r}, strength=0.3, draws=3)
        async def test_login(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    result = redacted.run("--crucible-adapter=v2", "--crucible-redact=keys", "--crucible-report=run.html", "--crucible-json=run.json")

    assert result.ret == 0
    twins = stored_twins(redacted.path)
    shown = [(name, text) for name, position, text in twins if readable(text, PASSWORDS[position])]
    assert len({(name, position) for name, position, _ in twins}) >= 100
    assert shown == []
    texts = cells(redacted.path / ".crucible" / "crucible.db").decode(errors="replace").splitlines()
    assert [text for text in texts for password in PASSWORDS if readable(text, password)] == []
    for file in ("run.html", "run.json"):
        assert not any(password in (redacted.path / file).read_text() for password in PASSWORDS)
