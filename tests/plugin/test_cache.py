"""The reply cache: whole suites, run twice, with a count of their models' calls."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from cached_suite import AUTO, BOTH, CONFTEST, HEADER, KEY, OFF, REFRESH, TEST, V2, count_new_calls, estimates
from run_documents import of_arms

JSON = "--crucible-json=run.json"


def write_adapters(suite, **changes):
    """v1 and v2, each with a line of its own."""
    tables = "".join(
        f'[adapters.{name}]\nbackend = "model"\n{changes.get(name, "parameters = { temperature = 0.7 }")}\n'
        for name in ("v1", "v2")
    )
    (suite.path / "crucible.toml").write_text(tables)


@pytest.fixture
def drawn(suite, monkeypatch):
    """The suite before anything was asked."""
    monkeypatch.setenv("MODEL_KEY", KEY)
    suite.pytester.makeconftest(CONFTEST)
    write_adapters(suite)
    suite.test(TEST)
    return suite


def pay(drawn):
    assert drawn.run(V2, JSON).ret == 0
    assert count_new_calls(drawn) == {"v2": 20}


@pytest.fixture
def paid(drawn):
    """The suite after the candidate was asked once."""
    drawn.prepare_once(pay)
    return drawn


# -- a rerun ------------------------------------------------------------------------------------------------------


def test_a_rerun_sends_no_request_and_has_the_same_results(drawn, run):
    drawn.run(*BOTH, JSON)
    before, first = estimates(drawn), count_new_calls(drawn)
    result = run(*BOTH, JSON)

    assert first == {"v1": 20, "v2": 20}
    assert count_new_calls(drawn) == {}
    assert estimates(drawn) == before  # the latency, too
    result.stdout.fnmatch_lines(
        [
            "test_draws: v2: 20 of 20 replies from the reply cache (since 20??-??-??), with their original latency and cost"
            "; --crucible-cache=refresh calls the model again"
        ]
    )


def test_json_has_the_number_and_age_of_cached_replies(paid):
    first, two = (paid.json(*arms)["experiments"][0] for arms in ((V2,), BOTH))

    alone, candidate, baseline = of_arms(first, "cached") + of_arms(two, "cached")
    assert alone == candidate == {"replies": 20, "requests": 20, "since": alone["since"]}
    assert alone["since"].endswith("+00:00")
    assert baseline is None


@pytest.mark.uses("run_checks")
def test_refreshed_replies_that_differ_at_temperature_0_are_shown(drawn):
    """Also of the resumed run that has copied them, and of the stored one; at another temperature nothing is promised."""
    write_adapters(drawn, v2="parameters = { temperature = 0 }")
    drawn.run(*BOTH)
    refreshed, resumed = (drawn.run(*BOTH, *options) for options in ((REFRESH,), ("--crucible-resume",)))
    report = drawn.command("show")

    for result in (refreshed, resumed, report):
        result.stdout.fnmatch_lines(
            [
                "refreshed replies  20 of 20 differ, at temperature 0  *not deterministic",
                "*v2 gave other replies than those that were cached on 20 of 20 samples (83.2 to 100.0 % at 95 %), at temp*",
            ]
        )
        result.stdout.no_fnmatch_line("*v1 gave other replies*")


CHANGES = {
    "temperature": (lambda suite: write_adapters(suite, v2="parameters = { temperature = 0.8 }"), 20),
    "prompt": (lambda suite: suite.test(TEST.replace("(sample.input,", "(sample.input + '?',")), 20),
    "one sample": (lambda suite: edit_sample(suite, "q07"), 1),
    "order of samples": (lambda suite: reverse_samples(suite), 0),
    "header": (lambda suite: suite.test(TEST.replace(HEADER, "another")), 0),
    "name of the test": (lambda suite: suite.test(TEST.replace("test_draws", "test_others")), 0),
}


def edit_sample(suite, name):
    rows = [json.loads(line) for line in (suite.path / "questions.jsonl").read_text().splitlines()]
    suite.write_rows("questions.jsonl", [{**row, "input": "new"} if row["id"] == name else row for row in rows])


def reverse_samples(suite):
    path = suite.path / "questions.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize("change", CHANGES)
def test_only_changed_requests_are_sent(paid, change):
    edit, counts = CHANGES[change]
    edit(paid)
    paid.run(V2)

    assert sum(count_new_calls(paid).values()) == counts


def test_only_lost_samples_are_sent_again(drawn, monkeypatch):
    monkeypatch.setenv("FAILS", "q03 q11")
    drawn.run(V2)
    first = count_new_calls(drawn)
    monkeypatch.setenv("FAILS", "")

    result = drawn.run(V2)

    assert (first, count_new_calls(drawn)) == ({"v2": 20}, {"v2": 2})
    result.stdout.fnmatch_lines(["test_draws: v2: 18 of 20 replies from the reply cache*"])


@pytest.mark.slow
def test_a_plain_run_uses_replies_of_a_run_on_workers(drawn):
    drawn.run_n2(*BOTH)
    first = count_new_calls(drawn)
    drawn.run(*BOTH)

    assert (first, count_new_calls(drawn)) == ({"v1": 20, "v2": 20}, {})


# -- draws that stay apart ----------------------------------------------------------------------------------------

REPEATS = """
    import pytest

    SAME = [{"id": name, "input": "what?"} for name in "abc"]

    @pytest.mark.crucible(dataset=SAME, epochs=4)
    async def test_draws(sample, sampler, score):
        for part in range(2):
            reply = await sampler.generate(sample.input)
            with open("said.txt", "a") as file:
                file.write(f"{sample.id} {reply.text}\\n")
        score(fine=True)
"""


def test_repeats_and_equal_samples_keep_their_own_draws(drawn, run):
    drawn.test(REPEATS)

    def cached_counts():
        drawn_texts = (drawn.path / "said.txt").read_text().splitlines()
        (drawn.path / "said.txt").unlink()
        return sorted(drawn_texts)

    run(V2)
    first, calls = cached_counts(), count_new_calls(drawn)
    run(V2)

    assert calls == {"v2": 3 * 4 * 2}
    assert len(set(first)) == 24
    assert cached_counts() == first
    assert count_new_calls(drawn) == {}


def test_more_repeats_send_only_the_new_requests(drawn):
    for repeats in (4, 6):
        drawn.test(REPEATS.replace("epochs=4", f"epochs={repeats}"))
        drawn.run(V2)

    assert count_new_calls(drawn) == {"v2": 3 * 6 * 2}


JOINED = """
    import pytest

    @pytest.mark.parametrize("number", range(5))
    @pytest.mark.quality_target("value >= 0")
    def test_joined(crucible, number):
        texts = [crucible.sampler.generate("how many?").text for _ in range(2)]
        assert texts[0] != texts[1]
        crucible.score(value=int(texts[0].rpartition(" ")[2], 16) / 16**16)
"""


def test_joined_tests_are_replayed(drawn, run):
    drawn.test(JOINED)
    run(V2, JSON)
    before, first = estimates(drawn), count_new_calls(drawn)
    result = run(V2, JSON)

    assert (first, count_new_calls(drawn)) == ({"v2": 10}, {})
    assert estimates(drawn) == before
    result.stdout.fnmatch_lines(["test_joined: v2: 10 of 10 replies from the reply cache*"])


# -- baselines, resumed runs, and fresh replies -------------------------------------------------------------------


def test_a_rerun_from_the_cache_has_no_new_replies(drawn):
    drawn.run(*BOTH)
    result = drawn.run(*BOTH)

    result.stdout.fnmatch_lines(
        ["test_draws: v1: comparison 2 of v2 with this baseline since 20??-??-??; 1 of the 2 with new replies"]
    )


@pytest.mark.slow
def test_off_neither_reads_nor_writes_the_cache(drawn):
    for _ in range(2):
        result = drawn.run(V2, OFF)
        assert count_new_calls(drawn) == {"v2": 20}
    drawn.run(V2)

    assert count_new_calls(drawn) == {"v2": 20}
    result.stdout.no_fnmatch_line("*reply cache*")


def test_fresh_sends_the_baselines_requests_and_overwrites_the_cache(drawn):
    drawn.run(*BOTH, JSON)
    old = estimates(drawn)
    count_new_calls(drawn)
    drawn.run(*BOTH, "--crucible-fresh", JSON)
    fresh, sent = estimates(drawn), count_new_calls(drawn)
    drawn.run("--crucible-adapter=v1", JSON)

    assert sent == {"v1": 20}
    assert fresh["v2", "value"] == old["v2", "value"]
    assert fresh["v1", "value"] != old["v1", "value"]
    assert estimates(drawn)["v1", "value"] == fresh["v1", "value"]
    assert count_new_calls(drawn) == {}


def test_a_resumed_run_takes_the_rest_from_the_cache(paid):
    """Five of these were answered in the run that goes on, and all of them are in the cache."""
    with closing(sqlite3.connect(paid.path / ".crucible/crucible.db")) as store, store:
        store.execute("UPDATE runs SET status = 'interrupted'")
        store.execute("DELETE FROM replies WHERE position >= 5")
        store.execute("DELETE FROM observations WHERE position >= 5")

    result = paid.run(V2, "--crucible-resume")

    assert count_new_calls(paid) == {}
    result.stdout.fnmatch_lines(
        [
            "test_draws: v2: 5 of 20 replies reused from run *",
            "test_draws: v2: 15 of 15 replies from the reply cache*",
        ]
    )


def test_a_stopped_run_keeps_its_replies_in_the_cache(drawn, monkeypatch):
    monkeypatch.setenv("REFUSES", "q04")
    drawn.run(V2, "--crucible-concurrency=1")
    before = count_new_calls(drawn)
    monkeypatch.delenv("REFUSES")
    drawn.run(V2)

    assert (before, count_new_calls(drawn)) == ({"v2": 5}, {"v2": 16})


# -- settings -----------------------------------------------------------------------------------------------------


def test_the_command_line_overrides_environment_and_configuration(paid, monkeypatch):
    (paid.path / "pytest.ini").write_text("[pytest]\ncrucible_cache = refresh\n")
    paid.run(V2)
    configured = count_new_calls(paid)
    monkeypatch.setenv("CRUCIBLE_CACHE", "off")
    paid.run(V2)
    environment = count_new_calls(paid)
    paid.run(V2, AUTO)

    assert (configured, environment, count_new_calls(paid)) == ({"v2": 20}, {"v2": 20}, {})


@pytest.mark.parametrize(
    ("line", "arguments", "sentence"),
    [
        ("cache = 1", (), "adapter 'v2' has cache = 1: write true or false"),
        ("", ("--crucible-cache=always",), "--crucible-cache=always: write one of auto, only, off, refresh"),
        (
            "",
            ("--crucible-cache=only", "--crucible-fresh"),
            "--crucible-fresh queries the baselines again, and --crucible-cache=only calls no model: give one of them",
        ),
    ],
)
def test_an_invalid_cache_mode_is_refused_in_one_sentence(drawn, run, line, arguments, sentence):
    write_adapters(drawn, v2=line)

    drawn.refuses(run(V2, *arguments), sentence)


# -- what is kept -------------------------------------------------------------------------------------------------


def test_neither_keys_nor_headers_nor_prompts_are_in_the_cache(drawn, run):
    """Prompts are in the run store, as samples are; what is found by a hash need not say what was asked."""
    write_adapters(drawn, v2='api_key = "sk-planted-in-the-configuration"')
    run(V2)

    written = b"".join(path.read_bytes() for path in (drawn.path / ".crucible").iterdir())
    assert b"v2 says" in written
    for secret in (KEY, HEADER, "planted"):
        assert secret.encode() not in written
    with closing(sqlite3.connect(drawn.path / ".crucible/crucible.db")) as store:
        rows = store.execute("SELECT * FROM reply_cache").fetchall()
    assert "7 + 7" not in repr(rows)
