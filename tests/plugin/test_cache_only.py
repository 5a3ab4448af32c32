"""Replaying: with --crucible-cache=only no model is called or opened and no key is needed, or the run fails with a reason."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from cached_suite import BOTH, CONFTEST, KEY, ONLY, TEST, V2, count_new_calls, estimates, opened_checkpoints

JSON = "--crucible-json=run.json"
MODELS = '[adapters.v1]\nbackend = "model"\n[adapters.v2]\nbackend = "model"\n'
STORE = "--crucible-store=replies.db"


def pay(suite):
    suite.pytester.makeconftest(CONFTEST)
    (suite.path / "crucible.toml").write_text(MODELS)
    suite.test(TEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODEL_KEY", KEY)
        suite.run(*BOTH, STORE, JSON)
    assert count_new_calls(suite) == {"v1": 20, "v2": 20}
    (suite.path / "opened.txt").unlink()


@pytest.fixture
def paid(suite):
    """The suite after both adapters were asked, on a machine that has no key and nothing but the suite and its run store."""
    suite.prepare_once(pay)
    return suite


def forget(suite, where: str) -> None:
    with closing(sqlite3.connect(suite.path / "replies.db")) as store, store:
        store.execute(f"DELETE FROM reply_cache WHERE {where}")
        store.execute("UPDATE arms SET fingerprint = '' ")  # no stored replies of the baseline, either


def test_a_run_is_replayed_without_a_key(paid, run):
    before = estimates(paid)
    result = run(*BOTH, STORE, ONLY, JSON)

    assert result.ret == 0
    assert estimates(paid) == before
    assert (count_new_calls(paid), opened_checkpoints(paid)) == ({}, [])
    result.stdout.fnmatch_lines(
        [
            "  no model is called: replies come from the reply cache",
            "*test_draws: v2: 20 of 20 replies from the reply cache*",
        ]
    )


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_missing_replies_fail_with_their_number_and_the_first_sample(paid, workers):
    paid.write_rows("questions.jsonl", [{"id": f"q{k:02}", "input": f"{k} + {k + (k > 16)}"} for k in range(20)])

    result = paid.run(*workers, V2, STORE, ONLY)

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*3 of 20 replies are not in the reply cache, first the reply of 'v2' to sample 'q17': "
            "run once without --crucible-cache=only",
            "test_draws: v2: 3 samples lost (not in the reply cache)",
        ],
        consecutive=False,
    )
    result.stdout.no_fnmatch_line("*met*")
    assert (count_new_calls(paid), opened_checkpoints(paid)) == ({}, [])


def test_all_that_is_missing_is_counted_of_both_arms_in_the_order_of_the_dataset(paid):
    forget(paid, "true")

    result = paid.run(*BOTH, STORE, ONLY)

    result.stdout.fnmatch_lines(
        ["*40 of 40 replies are not in the reply cache, first the reply of 'v1' to sample 'q00': *"]
    )


def test_a_repeat_that_is_missing_is_named(paid):
    paid.test(TEST.replace('"questions.jsonl"', '"questions.jsonl", epochs=2'))

    result = paid.run(V2, STORE, ONLY)

    result.stdout.fnmatch_lines(
        ["*20 of 40 replies are not in the reply cache, first * of 'v2' to sample 'q00' (repeat 2): *"]
    )


CATCHING = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("value >= 0")
    async def test_draws(sample, sampler, score):
        try:
            await sampler.generate(sample.input)
        except Exception:
            score(value=1.0)
"""


def test_a_test_that_catches_everything_hides_nothing(paid):
    paid.write_rows("questions.jsonl", [{"id": "q00", "input": "new"}])
    paid.test(CATCHING)

    result = paid.run(V2, STORE, ONLY)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*1 of 1 replies are not in the reply cache, *"])


def test_an_item_of_a_joined_test_fails_by_itself(paid):
    paid.test("def test_joined(crucible):\n    crucible.sampler.generate('new')")

    result = paid.run(V2, STORE, ONLY)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the reply of 'v2' to sample 'test_joined' is not in the reply cache*"])


def test_a_sample_alone_is_replayed_or_fails(paid):
    result = paid.run(V2, STORE, ONLY, "--crucible-sample=q07")
    forget(paid, "true")
    missing = paid.run(V2, STORE, ONLY, "--crucible-sample=q07")

    assert (result.ret, missing.ret) == (0, 1)
    missing.stdout.fnmatch_lines(["*the reply of 'v2' to sample 'q07' is not in the reply cache*"])


UNKNOWN = "the run store has no replies of adapter 'v2' as it is configured now: run once without --crucible-cache=only"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            "cache = false",
            "adapter 'v2' has cache = false, and --crucible-cache=only calls no model: remove one of them",
        ),
        ('model = "v3"', UNKNOWN),
        ('model_path = "tinker://run/sampler_weights/v2"', UNKNOWN),
        ('checkpoint = "v2.safetensors"', UNKNOWN),
    ],
    ids=["not cached", "a hook's", "tinker", "local"],
)
def test_an_adapter_whose_replies_are_not_there_is_refused(paid, run, table, sentence):
    backend = {"model_path": "tinker", "checkpoint": "local"}.get(table.split()[0], "model")
    (paid.path / "crucible.toml").write_text(f'[adapters.v2]\nbackend = "{backend}"\n{table}\n')

    paid.refuses(run(V2, STORE, ONLY), sentence)
    assert count_new_calls(paid) == {}


def test_a_hooks_backend_that_has_to_be_opened_is_not_asked_either(paid, monkeypatch):
    """It may have turned out to be one that is never cached."""
    (paid.path / "crucible.toml").write_text('[adapters.v2]\nbackend = "model"\nmodel = "v3"\n')
    monkeypatch.setenv("MODEL_KEY", KEY)

    paid.refuses(paid.run(V2, STORE, ONLY), UNKNOWN)


def test_what_is_free_is_opened_as_ever(paid):
    (paid.path / "crucible.toml").write_text('[adapters.v2]\nbackend = "recorded"\npath = "answers/v2.jsonl"\n')
    paid.test(TEST.replace('int(reply.text.rpartition(" ")[2], 16) / 16**16', "len(reply.text)"))

    assert paid.run(V2, STORE, ONLY).ret == 0
