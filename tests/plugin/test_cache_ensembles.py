"""Members of ensembles are cached, each by itself: what a member was asked, it need not be asked again as an arm."""

from __future__ import annotations

import pytest
from cached_suite import CONFTEST, KEY, ONLY, TEST, count_new_calls, estimates, opened_checkpoints

TRIO = ("--crucible-adapter=trio", "--compare=v1", "--crucible-json=run.json")


@pytest.fixture
def trio(suite, monkeypatch):
    """Three models that never agree: then the answer is that of the first, v1."""
    monkeypatch.setenv("MODEL_KEY", KEY)
    suite.pytester.makeconftest(CONFTEST)
    suite.adapters(
        {**{name: {"backend": "model"} for name in ("v1", "v2", "v3")}, "trio": {"ensemble": ["v1", "v2", "v3"]}}
    )
    suite.test(TEST)
    return suite


def test_a_member_that_is_an_arm_is_paid_for_once(trio, run):
    run(*TRIO)

    assert count_new_calls(trio) == {"v1": 20, "v2": 20, "v3": 20}
    assert estimates(trio)["trio", "value"] == estimates(trio)["v1", "value"]


def test_a_rerun_sends_no_request_and_has_the_same_results(trio):
    trio.run(*TRIO)
    before, _ = estimates(trio), count_new_calls(trio)
    result = trio.run(*TRIO)

    assert count_new_calls(trio) == {}
    assert estimates(trio) == before
    result.stdout.fnmatch_lines(["test_draws: trio: 60 of 60 replies from the reply cache*"])


def test_cached_replies_belong_to_their_member(trio):
    trio.run(*TRIO)
    count_new_calls(trio)
    trio.run("--crucible-adapter=v3")

    assert count_new_calls(trio) == {}


@pytest.mark.slow
def test_an_ensemble_is_replayed_without_opening_its_members(trio, monkeypatch):
    trio.run(*TRIO)
    before, _ = estimates(trio), (trio.path / "opened.txt").unlink()
    monkeypatch.delenv("MODEL_KEY")
    result = trio.run(*TRIO, ONLY)

    assert result.ret == 0
    assert estimates(trio) == before
    assert opened_checkpoints(trio) == []


@pytest.mark.slow
def test_a_missing_member_is_reported_and_not_outvoted(trio):
    trio.run("--crucible-adapter=v1")
    trio.run("--crucible-adapter=v2")
    trio.write_rows("questions.jsonl", [{"id": f"q{k:02}", "input": f"{k} + {k + (k > 7)}"} for k in range(20)])
    trio.run("--crucible-adapter=v3")
    result = trio.run("--crucible-adapter=trio", ONLY)

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*12 of 20 replies are not in the reply cache, first the reply of 'trio' to sample 'q08': *",
            "test_draws: trio: 12 samples lost (not in the reply cache)",
        ]
    )
