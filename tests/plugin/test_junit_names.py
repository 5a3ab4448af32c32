"""Names in JUnit files: a verdict or data check is a case of the class that is its test, however the test is written."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.uses("data_checks")

TESTS = """
    import pytest
    from pytest_crucible.datasets.checks import expect_no_missing_values

    mark = pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    goal = pytest.mark.quality_target("rate(exact_match >= 0.5) >= 0.7")
    checked = pytest.mark.data_check(expect_no_missing_values("expected"))

    @mark
    @goal
    @checked
    async def test_plain(sample, sampler):
        return await sampler.generate(sample.input)

    @mark
    @goal
    @checked
    @pytest.mark.parametrize("form", ["a", "b::c [d]"])
    async def test_forms(sample, sampler, form):
        return await sampler.generate(sample.input)

    class TestGroup:
        @mark
        @goal
        @checked
        async def test_plain(self, sample, sampler):
            return await sampler.generate(sample.input)

        @mark
        @goal
        @checked
        @pytest.mark.parametrize("form", ["a"])
        async def test_forms(self, sample, sampler, form):
            return await sampler.generate(sample.input)
"""
EXPERIMENTS = (
    "test_plain",
    "test_forms[a]",
    "test_forms[b::c [d]]",
    "TestGroup.test_plain",
    "TestGroup.test_forms[a]",
)


@pytest.fixture
def tests(suite):
    suite.test(TESTS)
    return suite


def cases(path):
    root = ElementTree.parse(path / "junit.xml").getroot()
    return sorted((case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase"))


@pytest.mark.parametrize(
    ("options", "prefix"),
    [((), ""), (("-n2",), ""), (("--junit-prefix=nightly",), "nightly."), (("-o", "junit_family=xunit1"), "")],
    ids=["plain", "xdist", "prefix", "xunit1"],
)
def test_a_verdict_has_its_test_as_class_and_its_claim_as_name(tests, options, prefix):
    tests.run("--crucible-adapter=v2", "--junitxml=junit.xml", *options)

    parts = [case for case in cases(tests.path) if not case[1].startswith("test_")]

    assert parts == sorted(
        (f"{prefix}test_sums.{name}", part)
        for name in EXPERIMENTS
        for part in ("rate(exact_match >= 0.5) >= 0.7", "expect_no_missing_values(expected)")
    )
