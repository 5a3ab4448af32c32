"""What --crucible-redact has found in a run is hidden everywhere in it: variants, replies, logs, names, caches, workers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from test_secret_places import cells

from pytest_crucible.features.guards.forms import read_forms
from pytest_crucible.features.guards.normalise import normalise

TABLES = """
[guards.keys]
kind = "secrets"

[adapters.v2]
backend = "scripted"
script = "parrot:answer"
"""
PASSWORDS = ("tr0ub4dor3xyz", "Corr3ct-Horse-9", "wehgoqmtzs42", "Zug!Spitze2962", "pl4typus_lagoon")
ROWS = [
    {
        "id": f"s{k}",
        "input": f"Please log me in, password: {password} and tell me the weather in Kiel today",
        "expected": "-",
    }
    for k, password in enumerate(PASSWORDS)
]
ATTACKS = ("character_swap", "character_delete", "character_insert", "homoglyph", "keyboard_typo", "case_noise", "whitespace_noise",
           "word_shuffle", "word_insertion", "jailbreak_encode", "prompt_injection_basic")  # fmt: skip


def readable(text: str, password: str) -> bool:
    """Return whether a person could still read the password: itself, disguised, or with a letter changed."""
    normal = "".join(map(normalise, password))
    if any(normal in "".join(map(normalise, form)) for form in (text, *read_forms(text))):
        return True
    words = [normalise(word) for word in re.split(r"[\s\"'<>,.:]+", text)]
    return any(SequenceMatcher(None, normal, word).ratio() >= 0.75 for word in words)


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


@pytest.mark.uses("robustness")
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
    result = redacted.run(
        "--crucible-adapter=v2", "--crucible-redact=keys", "--crucible-report=run.html", "--crucible-json=run.json"
    )

    assert result.ret == 0
    twins = stored_twins(redacted.path)
    lines = [(name, text) for name, position, text in twins if readable(text, PASSWORDS[position])]
    assert len({(name, position) for name, position, _ in twins}) >= 100
    assert lines == []
    texts = cells(redacted.path / ".crucible" / "crucible.db").decode(errors="replace").splitlines()
    folded = ["".join(map(normalise, text)) for text in texts]
    assert [text for text in folded for password in PASSWORDS if "".join(map(normalise, password)) in text] == []
    for file in ("run.html", "run.json"):
        assert not any(password in (redacted.path / file).read_text() for password in PASSWORDS)


NAMED = """
    import logging, pytest

    ROWS = [{"id": "first", "input": "hello", "expected": "-"}, {"id": "second", "input": "reveal", "expected": "-"}]

    @pytest.mark.crucible(ROWS, metrics=["exact_match"])
    @pytest.mark.parametrize("n", ["password: Wolk3nbruch", "other"])
    async def test_model(sample, sampler, score, n):
        reply = await sampler.generate(sample.input)
        logging.warning("got %s", reply.text)
        score(said=reply.text)
        return reply

    @pytest.mark.parametrize("name", ["W\u043elk3nbruch", "password: Wolk3nbruch"])
    def test_named(name, tmp_path):
        logging.error("tr0ub4dor3xyz")
        assert 0, "its name is " + name
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_value_found_later_is_hidden_in_earlier_output(redacted, workers):
    """The first reply has no word that says what it is; the second one has. Both are stored, cached, logged and reported."""
    redacted.pytester.makepyfile(
        parrot="""
        import time

        def answer(request):
            if "reveal" in request.input:
                time.sleep(0.3)
                return "its password: tr0ub4dor3xyz " + "and more words " * 9
            return "say TR0UB\u200b4dor3xyz and " + "some more words " * 9
        """
    )
    redacted.test(NAMED)
    files = ["--junitxml=run.xml", "--log-file=run.log", "--crucible-report=run.html", "--crucible-json=run.json"]
    result = redacted.run(
        "--crucible-adapter=v2", "--crucible-redact=keys", "--durations=0", "-vv", "-rA", *files, *workers
    )
    shown_result = redacted.command("show", "-vv", "--sample", "first")

    places = {path.name: path.read_bytes() for path in redacted.path.glob("run.*")}
    places |= {str(path): path.read_bytes() for path in (redacted.path / ".pytest_cache").rglob("*") if path.is_file()}
    places["cells"] = cells(redacted.path / ".crucible" / "crucible.db")
    places["printed"] = (result.stdout.str() + shown_result.stdout.str()).encode()
    places["names"] = "\n".join(map(str, redacted.path.parent.rglob("*"))).encode()
    for password in ("tr0ub4dor3xyz", "Wolk3nbruch"):
        normal = "".join(map(normalise, password))
        assert [
            name for name, data in places.items() if normal in "".join(map(normalise, data.decode(errors="replace")))
        ] == []
    assert {"run.xml", "run.html", "run.json"} <= set(places)
    assert b"PASSWORD_" in places["cells"]
    assert b"test_named[name0]" in places["printed"]


def test_a_test_with_a_hidden_name_is_run_again_by_lf_and_found_by_k(redacted):
    redacted.test(NAMED)
    options = ("--crucible-adapter=v2", "--crucible-redact=keys")
    redacted.run(*options).assert_outcomes(failed=2, passed=2)

    again = redacted.run(*options, "--lf", "-v")
    assert "test_sums.py::test_named[name1] FAILED" in re.sub(r" +", " ", again.stdout.str())
    again.assert_outcomes(failed=2)
    redacted.run(*options, "-k", "password and test_named").assert_outcomes(failed=1, deselected=3)
    redacted.run(*options, "test_sums.py::test_named[name1]").assert_outcomes(failed=1)
