"""Items of joined tests that are run again, as pytest-rerunfailures does: one answer counts, and no second draw."""

from __future__ import annotations

import importlib.util
import json

import pytest

RERUNNER = """
    from _pytest.runner import runtestprotocol

    def pytest_runtest_protocol(item, nextitem):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for attempt in range(3):
            item._initrequest()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            if attempt == 2 or not any(report.failed for report in reports):
                break
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True
"""
"""What the option `--reruns=2` does to an item that fails."""
SUMS = """
    import json
    from pathlib import Path

    import pytest

    def attempt(number):
        place = Path(f"attempts-{number}")
        tries = int(place.read_text()) + 1 if place.exists() else 1
        place.write_text(str(tries))
        return tries

    @pytest.mark.quality_target("right >= 0.70")
    @pytest.mark.parametrize("number", range(20))
    def test_sums(crucible, number):
        tries = attempt(number)
        if number < 3 and tries < LOST[number]:
            raise ConnectionError("no route")
        crucible.score(right=number != 1, tries=tries)
"""


IS_INSTALLED = importlib.util.find_spec("pytest_rerunfailures") is not None
REAL = pytest.param("real", marks=pytest.mark.skipif(not IS_INSTALLED, reason="pytest-rerunfailures is not installed"))


@pytest.fixture(params=["stand-in", REAL])
def rerun(request, suite):
    """Runs the suite with up to two further attempts of each item that fails."""
    if request.param == "stand-in":
        suite.pytester.makeconftest(RERUNNER)
        return lambda *arguments: suite.run(*arguments, "--crucible-adapter=v2", "--crucible-json=run.json")
    return lambda *arguments: suite.run("--reruns=2", *arguments, "--crucible-adapter=v2", "--crucible-json=run.json")


def estimates(suite):
    document = json.loads((suite.path / "run.json").read_text(encoding="utf-8"))
    return {each["metric"]: each for each in document["experiments"][0]["estimates"]}


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "xdist"])
def test_the_answer_of_a_rerun_counts(suite, rerun, workers):
    # The second attempt answers item 0, the third item 1, whose answer is wrong, and none item 2.
    suite.test(SUMS.replace("LOST[number]", "(2, 3, 9)[number]"))

    result = rerun(*workers)

    right, tries = estimates(suite)["right"], estimates(suite)["tries"]
    assert (right["n"], right["lost"], right["value"]) == (19, 1, 18 / 19)
    assert tries["value"] == pytest.approx((2 + 3 + 17) / 19)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["test_sums: v2: 1 sample lost (error)"])


def test_an_answered_item_gets_no_second_draw(suite, rerun):
    # Without a target a wrong answer fails its item, so that it is run again, and is right then.
    body = SUMS.replace('@pytest.mark.quality_target("right >= 0.70")', "").replace(
        "raise ConnectionError", "crucible.score(right=False, tries=tries); pytest.fail"
    )
    suite.test(body.replace("LOST[number]", "(2, 3, 3)[number]").replace("number != 1", "True"))

    rerun()

    assert estimates(suite)["right"]["value"] == 17 / 20
    assert estimates(suite)["tries"]["value"] == 1.0


def test_the_calls_of_a_lost_attempt_stay(suite, rerun, crucible):
    suite.test(
        """
        from pathlib import Path

        import pytest

        @pytest.mark.quality_target("right >= 0.70")
        @pytest.mark.parametrize("number", range(20), ids=[f"q{k:02}" for k in range(20)])
        def test_sums(crucible, number):
            reply = crucible.sampler.generate(f"{number} + {number}")
            place = Path(f"attempted-{number}")
            if not place.exists():
                place.write_text("")
                raise ConnectionError("after a reply that was paid for")
            crucible.score(right=crucible.sampler.generate(f"again {number}").text == str(2 * number))
        """
    )

    rerun()

    assert estimates(suite)["right"]["lost"] == 0
    _, output, _ = crucible("show", "latest", "--sample=q03", "--json")
    [conversation] = json.loads(output)["experiments"][0]["conversations"]
    assert [call["messages"] for call in conversation["calls"]] == ["3 + 3", "3 + 3", "again 3"]
