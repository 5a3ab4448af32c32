"""Forms and arguments of test functions."""

from __future__ import annotations

V2 = "--crucible-adapter=v2"


def test_def_and_async_def_give_the_same_numbers(suite, run):
    suite.test(
        """
        import pytest
        pytestmark = [
            pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"]),
            pytest.mark.quality_target("exact_match >= 0.70"),
        ]

        async def test_async(sample, sampler):
            return await sampler.generate(sample.input)

        def test_plain(sample, sampler):
            return sampler.generate(sample.input)

        def test_text(sample, sampler):
            return sampler.generate(sample.input).text
        """
    )

    document = suite.json(V2, run=run)

    assert document["exit_status"] == 0
    assert [experiment["estimates"][0]["value"] for experiment in document["experiments"]] == [0.8, 0.8, 0.8]


def test_score_records_values_that_no_metric_computes(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl")
        @pytest.mark.quality_target("solved >= 0.80", "count(steps) == 60", "p90(steps) <= 3")
        @pytest.mark.ab_compare("steps", "solved")
        def test_steps(score, sample, sampler):
            reply = sampler.generate(sample.input)
            score(solved=reply.text == sample.expected, steps=3)
            score(arm=sampler.arm.name)
        """
    )

    document = suite.json(V2, "--compare=v1")

    (experiment,) = document["experiments"]
    assert {metric["name"]: metric["kind"] for metric in experiment["metrics"]} == {
        "arm": "text",
        "solved": "binary",
        "steps": "unbounded",
    }
    states = {verdict["subject"]: verdict["state"] for verdict in experiment["verdicts"]}
    assert states.pop("steps: v2 vs v1") == "met"  # alike, without bounds as with them
    assert set(states.values()) == {"met"}


def test_numbers_without_bounds_say_declare_bounds_before_they_are_proven(suite):
    body = """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl"){bounds}
        @pytest.mark.quality_target("steps <= 9", decide="bound")
        @pytest.mark.ab_compare("steps", margin=4)
        def test_steps(score, sample, sampler):
            score(steps=3 + (sampler.arm.name == "v1"))
    """
    suite.test(body.format(bounds=""))
    [unknown] = suite.json(V2, "--compare=v1")["experiments"]
    suite.test(body.format(bounds="\n        @pytest.mark.score_bounds(steps=(0, 10))"))
    [experiment] = suite.json(V2, "--compare=v1")["experiments"]

    assert [
        (verdict["state"], "declare bounds of 'steps'" in verdict["reason"]) for verdict in unknown["verdicts"]
    ] == [
        ("undecided", True),
        ("undecided", True),
    ]
    assert [(verdict["kind"], verdict["state"], verdict["proven"]) for verdict in experiment["verdicts"]] == [
        ("target", "met", True),
        ("comparison", "met", True),
    ]
    assert [metric["kind"] for metric in experiment["metrics"]] == ["bounded"]


def test_other_fixtures_are_ordinary_and_set_up_once(suite):
    suite.test(
        """
        import pytest

        def note(what):
            with open("calls.txt", "a") as file:
                file.write(what + chr(10))

        @pytest.fixture(scope="session")
        def whole():
            note("session")
            yield "Q: "
            note("session down")

        @pytest.fixture(scope="module")
        def prompt(whole):
            note("module")
            return whole + "{}"

        @pytest.fixture
        def each(prompt):
            note("function")
            yield prompt
            note("function down")

        @pytest.fixture(autouse=True)
        def around():
            note("autouse")

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        async def test_one(each, sample, sampler, tmp_path, whole):
            assert tmp_path.is_dir() and each == "Q: {}" and whole == "Q: "
            return await sampler.generate(each.format(sample.input))

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        def test_two(sample, sampler, prompt):
            return sampler.generate(prompt.format(sample.input))
        """
    )

    result = suite.run(V2)

    result.assert_outcomes(passed=2)
    first = ["session", "module", "autouse", "function", "function down"]
    assert suite.calls() == [*first, "autouse", "session down"]


def test_methods_have_self_setup_and_the_marks_of_their_class(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.5")
        class TestSums:
            def setup_method(self, method):
                self.prompt = f"{method.__name__} {{}}"

            @pytest.mark.quality_target("exact_match >= 0.7")
            async def test_async(self, sample, sampler):
                assert self.prompt == "test_async {}"
                return await sampler.generate(self.prompt.format(sample.input))

            def test_plain(self, sample, sampler, request):
                assert self.prompt == "test_plain {}" and request.node.name == "test_plain"
                return sampler.generate(self.prompt.format(sample.input))

            @staticmethod
            def test_static(sample, sampler):
                return sampler.generate(sample.input)
        """
    )

    document = suite.json(V2)

    values = {
        experiment["nodeid"]: [verdict["subject"] for verdict in experiment["verdicts"]]
        for experiment in document["experiments"]
    }
    assert values == {
        "test_sums.py::TestSums::test_async": ["exact_match >= 0.5", "exact_match >= 0.7"],
        "test_sums.py::TestSums::test_plain": ["exact_match >= 0.5"],
        "test_sums.py::TestSums::test_static": ["exact_match >= 0.5"],
    }
    assert document["exit_status"] == 0


def test_marks_are_read_in_the_order_of_the_source_and_a_repeated_one_once(suite):
    suite.test(
        """
        import pytest

        pytestmark = [
            pytest.mark.quality_target("exact_match >= 0.1"),
            pytest.mark.quality_target("exact_match >= 0.2"),
            pytest.mark.ab_compare("exact_match"),
        ]

        @pytest.mark.quality_target("exact_match >= 0.3")
        @pytest.mark.quality_target("exact_match >= 0.4", "exact_match >= 0.5")
        class TestSums:
            @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", "contains_expected"])
            @pytest.mark.ab_compare("exact_match", "contains_expected")
            @pytest.mark.quality_target("exact_match >= 0.2", "exact_match >= 0.7")
            @pytest.mark.quality_target("exact_match >= 0.6")
            @pytest.mark.ab_compare("contains_expected")
            async def test_sums(self, sample, sampler):
                return await sampler.generate(sample.input)
        """
    )

    (experiment,) = suite.json(V2, "--compare=v1")["experiments"]

    targets = [f"exact_match >= 0.{k}" for k in (1, 2, 3, 4, 5, 7, 6)]
    compared = [f"{metric}: v2 vs v1" for metric in ("exact_match", "contains_expected")]
    assert [verdict["subject"] for verdict in experiment["verdicts"]] == [*targets, *compared]


def test_each_case_of_a_parametrised_function_is_an_experiment(suite, run):
    suite.test(
        """
        import pytest

        @pytest.mark.parametrize("style", ["terse", "chatty"])
        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.ab_compare("exact_match")
        async def test_styles(sample, sampler, style):
            reply = await sampler.generate(f"{style}: {sample.input}")
            return reply.text if style == "terse" else f"Well, {reply.text}"
        """
    )

    document = suite.json(V2, "--compare=v1", run=run)

    values = {experiment["nodeid"]: experiment["estimates"][0]["value"] for experiment in document["experiments"]}
    assert values == {"test_sums.py::test_styles[terse]": 0.8, "test_sums.py::test_styles[chatty]": 0.0}
