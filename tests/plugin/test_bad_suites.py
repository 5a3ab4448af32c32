"""Invalid markers, targets and datasets: all of them are reported at once, before any request."""

from __future__ import annotations

import pytest

HEAD = """
import pytest
from pytest_crucible import metric

@metric(kind="text")
def tone(reply, sample):
    return "calm"

@metric
def right(reply, sample):
    return True
"""
BODY = "\nasync def test_{k}(sample, sampler):\n    return await sampler.generate(sample.input)\n"
GOOD = '@pytest.mark.crucible(dataset="questions.jsonl", metrics=[right, tone])\n'


def target(text):
    return f"{GOOD}@pytest.mark.quality_target({text})"


def comparison(text):
    return f"{GOOD}@pytest.mark.ab_compare({text})"


def twice(marker, first, second):
    return f"{GOOD}@pytest.mark.{marker}({first})\n@pytest.mark.{marker}({second})"


def crucible(text):
    return f"@pytest.mark.crucible({text})"


MISTAKES = {
    crucible(
        "metrics=[right]"
    ): "@pytest.mark.crucible needs dataset=: a file, a name, a list of samples or a function",
    crucible("'questions.jsonl', size=3"): (
        "@pytest.mark.crucible has no argument 'size': it takes dataset, metrics, split, fold, "
        "limit, stratify, epochs, timeout, fields, budget, purpose, arms_differ_in, repairs, stage, prompts, fixed, "
        "max_calls"
    ),
    crucible("datset='questions.jsonl'"): (
        "@pytest.mark.crucible has no argument 'datset': did you mean 'dataset'? it takes dataset, metrics, *"
    ),
    crucible("'questions.jsonl', [right]"): "@pytest.mark.crucible takes dataset by position, the rest by name",
    crucible("'questions.jsonl', limit=0"): "@pytest.mark.crucible has limit=0: write a whole number of at least 1",
    crucible("'questions.jsonl', epochs=0"): "@pytest.mark.crucible has epochs=0: write a whole number of at least 1",
    crucible("'questions.jsonl', metrics=['rigth']"): (
        "metric 'rigth' is not registered: `crucible metrics` lists what is"
    ),
    crucible("'questions.jsonl', metrics=[right, right]"): (
        "metric 'right' is given twice: give each metric a name of its own"
    ),
    crucible("'questions.jsonl', metrics=[3]"): (
        "3 is not a metric: give a function (reply, sample) -> bool, float or None, a Metric, or the name of a registered one"
    ),
    crucible("dataset=3"): "dataset=3 cannot be used: pass a file, a name, a list of samples or a function",
    target(
        "'rigth >= 0.5'"
    ): "target 'rigth >= 0.5' names metric 'rigth': did you mean 'right'? this experiment has right, tone",
    target("'right > 80%'"): (
        "target 'right > 80%' cannot be read at '%' (character 11): expected nothing more, for example 'accuracy >= 0.80'"
    ),
    target("'mean(right >= 0.5) >= 0.5'"): (
        "target 'mean(right >= 0.5) >= 0.5' cannot be read: a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"
    ),
    target("'tone >= 0.5'"): "target 'tone >= 0.5' is about 'tone', which is text: name a metric of bool or numbers",
    target("'right >= 0.5', decide='maybe'"): (
        "target 'right >= 0.5' has decide='maybe': write 'point' (the estimate decides) or 'bound' (proof decides)"
    ),
    target(""): "@pytest.mark.quality_target names no target: write for example 'accuracy >= 0.80'",
    comparison("'right', margin=-0.1"): (
        "ab_compare('right') has margin=-0.1: write a positive number in the metric's units, such as 0.05"
    ),
    comparison("'right', alternative='non-inferior'"): (
        "ab_compare('right') has alternative='non-inferior' without a margin: add one, for example margin=0.05"
    ),
    comparison("'right', alternative='nicer'"): (
        "ab_compare('right') has alternative='nicer': write one of regression, non-inferior, superior, equivalent"
    ),
    comparison("'right', margin=0.1, alternative='regression'"): (
        "ab_compare('right') has a margin and alternative='regression': leave one of them out"
    ),
    comparison("right"): "ab_compare(*) compares a Metric: name the metric by a string",
    comparison("'left'"): "ab_compare('left') names metric 'left': this experiment has right, tone",
    comparison(""): "@pytest.mark.ab_compare names no metric: write for example ab_compare('accuracy')",
    twice("quality_target", "'right >= 0.5'", "'right  >= 0.5', decide='bound'"): (
        "target 'right >= 0.5' is declared twice with different decide=: declare it once"
    ),
    twice("ab_compare", "'right'", "'right', margin=0.1"): (
        "ab_compare('right') is declared twice with different margins, alternatives or relevant differences: declare it "
        "once, or once with a margin and once with alternative='superior'"
    ),
    twice("ab_compare", "'right'", "'right', alternative='superior'"): (
        "ab_compare('right') is declared twice with different margins, alternatives or relevant differences: declare it "
        "once, or once with a margin and once with alternative='superior'"
    ),
    crucible("'gone.jsonl'"): "dataset '*gone.jsonl' does not exist: give the path of a file *",
    crucible("'gsm8'"): "dataset 'gsm8' does not exist: did you mean 'gsm8k'? `crucible data list` lists them",
    crucible("'empty.jsonl'"): "dataset '*empty.jsonl' is empty: write one JSON object per line",
    crucible("'torn.jsonl'"): "line 2 of *torn.jsonl is not JSON (*): write one JSON object per line",
    crucible(
        "'twice.jsonl'"
    ): "line 3 of *twice.jsonl repeats the id 'a' of line 1 of *twice.jsonl: ids must be unique",
    crucible(
        "'bare.jsonl'"
    ): "line 1 of *bare.jsonl has no 'input' (it has 'id', 'question'): name the field with fields=*",
    crucible(
        "'some.jsonl'"
    ): "line 2 of *some.jsonl has no 'id' but others have one: give it to all samples or to none",
    crucible("[]"): "dataset 'test_*' is empty: an experiment needs at least one sample",
    crucible("[1, 2]"): "sample 1 of test_* is a number: a sample is a mapping with 'id' and 'input', or a Sample",
}
FILES = {
    "empty": "",
    "torn": '{"id": "a", "input": 1}\n{"id": "b", "in\n',
    "twice": '{"id": "a", "input": 1}\n{"id": "b", "input": 2}\n{"id": "a", "input": 3}\n',
    "bare": '{"id": "a", "question": 1}\n',
    "some": '{"id": "a", "input": 1}\n{"input": 2}\n',
}


@pytest.mark.uses("agents")
def test_every_error_has_its_own_sentence(suite, run):
    """All in one module, as a user who makes several would see them."""
    for name, text in FILES.items():
        (suite.path / f"{name}.jsonl").write_text(text)
    source = HEAD + "".join(mark + BODY.format(k=k) for k, mark in enumerate(MISTAKES, start=10))
    (suite.path / "test_sums.py").write_text(source)

    result = run("--crucible-adapter=v2", "--compare=v1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line]
    assert len(lines) == len(MISTAKES)
    for k, sentence in enumerate(MISTAKES.values(), start=10):
        pattern = f"*test_sums.py::test_{k}: {sentence}".replace("[", "[[]")
        assert pytest.LineMatcher([line for line in lines if f"::test_{k}:" in line]).fnmatch_lines([pattern]) is None
    assert not (suite.path / ".crucible").exists()


def test_our_fixtures_outside_an_experiment_name_their_place(suite):
    names = ("sample", "sampler", "score")
    suite.test("".join(f"def test_{name}({name}): pass\n" for name in names))

    result = suite.run("--crucible-adapter=v2")

    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            f"fixture '{name}' belongs to experiments: mark the function with @pytest.mark.crucible(dataset=...), "
            "or use the `crucible` fixture in an ordinary test"
            for name in names
        ]
    )


def test_a_target_that_nothing_scores_fails_the_session(suite):
    """Only the run shows what a function scores by itself: a typing error must not end green."""
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl")
        @pytest.mark.quality_target("rigth >= 0.5")
        def test_sums(sample, score):
            score(right=True)
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "FAILED test_sums.py::test_sums::rigth >= 0.5 - error in the suite: no sample has a number for 'rigth' "
            "(scored: right)"
        ]
    )


@pytest.mark.parametrize("function", ["async def", "def"])
def test_a_yield_in_place_of_return_is_one_error(suite, function):
    """pytest itself refuses a `def` with a yield, from 8.4 on: then no experiment is collected."""
    suite.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.5")
        {function} test_sums(sample):
            yield sample.expected
        """
    )

    result = suite.run()

    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    if function == "async def":
        suite.refuses(
            result,
            "test_sums.py::test_sums: test_sums has a yield: an experiment's function returns its reply; write return",
        )
    result.stdout.no_fnmatch_line("*0.000*")


def test_a_generator_that_a_helper_made_is_no_reply(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        def test_sums(sample):
            return (letter for letter in sample.expected)
        """
    )

    suite.run().stdout.fnmatch_lines(["*the test returned a generator, which has run nothing: return a reply*"])


FAILING = """
    import pytest
    from pytest_crucible import metric

    @metric{declaration}
    def judge(reply, sample):
        if sample.id {which}:
            raise ValueError("boom")
        return True

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=[judge, "exact_match"])
    @pytest.mark.quality_target("judge >= 0.5")
    def test_sums(sample):
        return sample.expected
"""


def test_a_metric_that_fails_wherever_it_applies_says_its_error(suite):
    conditional = FAILING.replace("return True", "return NotApplicable('the easy half')")
    text = conditional.replace("import metric", "import NotApplicable, metric")
    suite.test(text.format(declaration="", which="in ('q00', 'q01')"))

    result = suite.run()

    result.stdout.fnmatch_lines(["*error in the suite*metric 'judge' failed on all 2 samples: ValueError: boom"])
    result.stdout.no_fnmatch_line("*applies to no sample*")


@pytest.mark.parametrize("declaration", ["", "(kind='binary')"])
def test_a_metric_that_fails_on_all_samples_says_its_error(suite, declaration):
    suite.test(FAILING.format(declaration=declaration, which="!= ''"))

    result = suite.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*error in the suite*metric 'judge' failed on all 20 samples: ValueError: boom"])
    result.stdout.no_fnmatch_line("*no sample has a number*")


def test_a_metric_that_fails_on_some_samples_loses_them_and_shows_the_first_error(suite):
    suite.test(FAILING.format(declaration="(kind='binary')", which="< 'q03'"))

    suite.run().stdout.fnmatch_lines(
        [
            "judge >= 0.5 *17*3*met*",
            "test_sums: *: 3 scores lost (scorer error)",
            "*first: metric 'judge' raised ValueError: boom",
        ]
    )


def test_a_misspelt_marker_is_an_error_where_pytest_only_warns(suite):
    suite.test(f"{HEAD}{GOOD}@pytest.mark.quality_targets('right >= 0.5'){BODY.format(k=0)}")

    suite.refuses(
        suite.run("--crucible-adapter=v2", "-Wignore::pytest.PytestUnknownMarkWarning"),
        "*@pytest.mark.quality_targets is not a marker: did you mean @pytest.mark.quality_target[?]",
    )
