"""Data checks of a session: before sampling, as tests of their own; and verdicts without samples that an arm was trained on."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import main

CHECKED = """
    import pathlib
    import pytest
    from pytest_crucible.datasets.checks import expect_column_values_to_be_in_set as one_of
    from pytest_crucible.datasets.checks import expect_no_duplicates, expect_no_missing_values, expect_prompts_to_fit


    def count(text):
        with open("counted.txt", "a") as file:
            file.write(text + chr(10))
        return 1


    @pytest.fixture
    def setup():
        pathlib.Path("setup.txt").touch()


    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.data_check(
        expect_no_missing_values("expected"),
        one_of("expected", ["0"], severity="warn"),
        expect_prompts_to_fit(5, tokenizer=count),
    )
    async def test_good(sample, sampler):
        return await sampler.generate(sample.input)


    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.data_check(expect_no_missing_values("lable"), expect_prompts_to_fit(5, tokenizer=count))
    async def test_bad(sample, sampler, setup):
        return await sampler.generate(sample.input)
"""
SCRIPT = """
    def answer(request):
        with open("calls.txt", "a") as file:
            file.write(request.experiment + chr(10))
        return "wrong"

    base = answer
"""
MISSING = "expect_no_missing_values(\"lable\"): no sample has a field 'lable'; did you mean 'label'?"


@pytest.fixture
def checked(suite):
    suite.test(CHECKED)
    suite.script(SCRIPT)
    suite.write_rows("questions.jsonl", [{"input": f"q {k}", "expected": str(k), "label": "x"} for k in range(20)])
    return suite


def test_a_failed_check_is_a_test_and_sends_nothing(checked):
    warnings = ("-W", "default")
    result = checked.run("--crucible-adapter=scripted", "-v", "--junitxml=out.xml", *warnings)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_sums.py::test_good::expect_no_missing_values(expected) PASSED*",
            "test_sums.py::test_good::expect_column_values_to_be_in_set(expected, [[]0]) PASSED*",
            "test_sums.py::test_good PASSED*",
            "test_sums.py::test_bad::expect_no_missing_values(lable) FAILED*",
            "test_sums.py::test_bad::expect_prompts_to_fit(5, tokenizer=*) PASSED*",
            "test_sums.py::test_bad SKIPPED (nothing was sent: expect_no_missing_values(*",
            "*exact_match >= 0.70 SKIPPED*[[]100%]",
            MISSING,
            "*CrucibleWarning: expect_column_values_to_be_in_set*: 19 of 20 are not one of 0 (0.95): questions-10, *",
            '    nothing was sent, because expect_no_missing_values("lable") failed',
            "test_bad: data checks: 1 check failed, 1 passed",
        ]
    )
    assert set(checked.calls()) == {"test_sums.py::test_good"}
    assert not (checked.path / "setup.txt").exists()
    assert MISSING.replace('"', "&quot;") in (checked.path / "out.xml").read_text()
    again = checked.run("--crucible-adapter=scripted", "--lf", *warnings)
    again.stdout.fnmatch_lines([f"*{MISSING}"])
    pasted = checked.run("--crucible-adapter=scripted", "test_sums.py::test_bad::expect_no_missing_values(lable)")
    assert pasted.parseoutcomes() == {"failed": 1, "passed": 1, "skipped": 2}


def test_only_checks_and_no_checks(checked):
    (checked.path / "crucible.toml").unlink()
    only = checked.run("--crucible-adapter=nowhere", "--crucible-checks=only")

    assert only.parseoutcomes() == {"failed": 1, "passed": 4, "skipped": 2}
    only.stdout.fnmatch_lines([MISSING])
    assert not (checked.path / ".crucible" / "crucible.db").exists()
    checked.script(SCRIPT)
    off = checked.run("--crucible-adapter=scripted", "--crucible-checks=off")
    off.stdout.no_fnmatch_line("*expect_no_missing*")
    assert len(checked.calls()) == 40


@pytest.mark.slow
def test_workers_check_a_dataset_once(checked):
    result = checked.run_n2("--crucible-adapter=scripted", "-W", "default")

    assert result.parseoutcomes()["failed"] == 2
    result.stdout.fnmatch_lines([MISSING, "*nothing was sent, because *"])
    assert set(checked.calls()) == {"test_sums.py::test_good"}
    # Two tests with one check on one dataset, in two workers: each text is counted once, also by a function of the user's.
    assert len((checked.path / "counted.txt").read_text().splitlines()) == 20


@pytest.mark.uses("stages")
def test_a_failed_check_within_stages_sends_nothing(checked):
    result = checked.run("--crucible-adapter=scripted", "-o", "crucible_stages=smoke: 5, full", "-W", "default")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert set(checked.calls()) == {"test_sums.py::test_good"}
    result.stdout.fnmatch_lines([MISSING])


SWEPT = """
    import pytest
    from pytest_crucible.datasets.checks import expect_no_missing_values

    SAMPLES = [{{"id": f"s{{k}}", "input": f"q{{k}}"}} for k in range(40)]

    @pytest.mark.crucible(dataset=SAMPLES)
    @pytest.mark.quality_target("ok >= 0.5")
    @pytest.mark.data_check(expect_no_missing_values("{choosing}"))
    async def test_choosing(sample, sampler, score):
        score(ok=(await sampler.generate(sample.input)).text == "right")

    @pytest.mark.crucible(dataset=[{{"id": f"t{{k}}", "input": f"q{{k}}"}} for k in range(10)])
    @pytest.mark.quality_target("well >= 0.5")
    @pytest.mark.data_check(expect_no_missing_values("{other}"))
    async def test_other(sample, sampler, score):
        score(well=(await sampler.generate(sample.input)).text == "right")
"""
SWEEP = """
[adapters.tuned]
backend = "scripted"
script = "scripts:answer"

[adapters.tuned.sweep]
"parameters.quality" = [1, 2]
by = "ok"
"""


@pytest.mark.uses("sweeps")
@pytest.mark.parametrize("failing", ["choosing", "other"])
def test_a_failed_check_beside_a_sweep_sends_nothing(suite, failing):
    suite.script(
        """
        def answer(request):
            with open("calls.txt", "a") as file:
                file.write(request.experiment + chr(10))
            return "right" if request.parameters["quality"] == 2 else "wrong"
        """
    )
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(SWEEP)
    fields = {name: "inputs" if name == failing else "input" for name in ("choosing", "other")}
    suite.test(SWEPT.format(**fields))
    result = suite.run("--crucible-adapter=tuned", "-W", "default")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no sample has a field 'inputs'; did you mean 'input'[?]*"])
    callers = {call.partition(" ")[0] for call in suite.calls()}
    # Without the test that chooses there is no winner, and what waits for one sends nothing either.
    assert callers == (set() if failing == "choosing" else {"test_sums.py::test_choosing"})


TRAINED = """
    import pytest
    from pytest_crucible.datasets.checks import expect_not_contaminated

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.55")
    @pytest.mark.ab_compare("exact_match")
    {mark}
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
OPEN = "undecided*met on 20 samples, missed without the 10 that match train.jsonl"


def write_training(suite, mark=""):
    suite.test(TRAINED.format(mark=mark))
    suite.write_rows("train.jsonl", [{"prompt": f"{k} + {k}", "completion": str(2 * k)} for k in range(10)])
    tables = {name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")}
    suite.adapters({**tables, "v1": {**tables["v1"], "trained_on": ["train.jsonl"]}})


@pytest.mark.uses("contamination")
@pytest.mark.slow
def test_verdicts_are_decided_again_without_what_an_arm_was_trained_on(suite):
    write_training(suite)
    document = suite.json("--crucible-adapter=v1", "--crucible-report=run.md")
    [experiment] = document["experiments"]

    assert [(verdict["state"], verdict["reason"]) for verdict in experiment["verdicts"]] == [
        ("undecided", "met on 20 samples, missed without the 10 that match train.jsonl")
    ]
    assert experiment["exclusions"] == [{"reason": "match train.jsonl", "samples": 10}]
    [arm] = experiment["sections"]["contamination"]
    assert (arm["arm"], len(arm["files"][0]["matches"])) == ("v1", 10)
    assert "training data of v1: 10 of 20 samples match train.jsonl (10 exact)" in (suite.path / "run.md").read_text()
    # Of either arm.
    baseline = suite.run("--crucible-adapter=v2", "--compare=v1")
    baseline.stdout.fnmatch_lines(["test_sums: training data of v1: 10 of 20 samples match train.jsonl (10 exact)"])
    # The comparison is kept, and a stored baseline knows what it was trained on.
    assert list((suite.path / ".crucible" / "contamination").glob("*.json"))
    suite.run("--crucible-adapter=v1", "--crucible-tag=old")
    stored = suite.run("--crucible-adapter=v2", "--compare=tag:old")
    stored.stdout.fnmatch_lines(["test_sums: training data of *: 10 of 20 samples match train.jsonl (10 exact)"])
    off = suite.run("--crucible-adapter=v1", "--crucible-checks=off")
    off.stdout.no_fnmatch_line("*training data*")


def test_contaminated_samples_fail_or_are_dropped(suite):
    write_training(suite, '@pytest.mark.data_check(expect_not_contaminated(against="train.jsonl"))')
    failed = suite.run("--crucible-adapter=v2")
    write_training(suite, '@pytest.mark.data_check(expect_not_contaminated(against="train.jsonl", drop=True))')
    dropped = suite.json("--crucible-adapter=v2")

    failed.stdout.fnmatch_lines(["*: 10 of 20 match a row of train.jsonl (0.5): q00, q01, q02, q03, q04 and 5 more"])
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    assert dropped["experiments"][0]["dataset"]["n"] == 10


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ("data_check", "*data_check takes checks by position: write for example data_check(expect_no_missing_values('label'))"),
        ("data_check('x')", "*data_check has 'x', which is not a check: call one of pytest_crucible.datasets.checks, such as *"),
        ("data_chek(1)", "*@pytest.mark.data_chek is not a marker: did you mean @pytest.mark.data_check?"),
    ],
)  # fmt: skip
def test_a_wrong_marker_is_named(suite, mark, sentence):
    write_training(suite, f"@pytest.mark.{mark}")

    suite.refuses(suite.run("--crucible-adapter=v2", "-W", "ignore"), f"test_sums.py::test_sums: {sentence}")


def test_data_checks_need_a_dataset(suite):
    suite.test(
        """
        import pytest
        from pytest_crucible.datasets.checks import expect_no_missing_values

        @pytest.mark.data_check(expect_no_missing_values("x"))
        def test_sums(crucible):
            crucible.score(x=1)
        """
    )

    suite.refuses(
        suite.run("--crucible-adapter=v2"), "*has data checks but no dataset: mark it with @pytest.mark.crucible*"
    )


@pytest.mark.uses("contamination")
def test_commands(suite, capsys):
    def command(*arguments):
        capsys.readouterr()
        status = main(list(arguments))
        output = capsys.readouterr()
        return status, output.out, output.err

    suite.write_rows("old.jsonl", [{"input": f"q {k}", "topic": "ab"[k % 2]} for k in range(200)])
    suite.write_rows("new.jsonl", [{"input": f"q {k}", "topic": "abbb"[k % 4]} for k in range(200)])
    write_training(suite)

    status, out, _ = command("data", "check", "questions.jsonl", "--json")
    assert (status, {result["state"] for result in json.loads(out)["checks"]}) == (0, {"passed"})
    status, out, _ = command("data", "drift", "old.jsonl", "new.jsonl", "--field=topic", "--margin=0.01")
    assert status == 1
    assert "drift beyond the margin 0.01 is proven in 1 field of 1: topic" in out
    status, out, _ = command("data", "contamination", "questions.jsonl", "--against=train.jsonl")
    assert status == 1
    assert "10 of 20 samples match train.jsonl (10 exact)" in out
    assert command("data", "list", "questions.jsonl", "-o", "profile.html")[0] == 0
    assert "<h2>Quality</h2>" in (suite.path / "profile.html").read_text()


@pytest.mark.uses("contamination", "training")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("data contamination questions.jsonl", "there is nothing to compare with: name the training file"),
        ("data contamination questions.jsonl --against none.jsonl", "--against none.jsonl cannot be checked: it does not exist"),
        ("data contamination questions.jsonl --against train.jsonl --near 2", "--near 2 is not a similarity from 0.5 to 1"),
        (
            "data contamination questions.jsonl --adapter v2 --order-test",
            "--order-test: adapter 'v2' (recorded) cannot score prompts; use a backend with prompt logprobs",
        ),
        (
            "data contamination questions.jsonl --adapter v2 --min-k",
            "--min-k needs --base and --fresh: without them it only shows which texts are easy",
        ),
        ("data contamination questions.jsonl --order-test", "--order-test needs --adapter"),
        ("data contamination questions.jsonl --adapter v2", "--adapter needs a test: add --order-test"),
        ("data drift questions.jsonl none.jsonl", "dataset 'none.jsonl' does not exist"),
        ("data drift questions.jsonl train.jsonl --field inptu", "did you mean 'input'?"),
        ("data drift questions.jsonl train.jsonl --margin 3", "--margin 3 is not between 0 and 1"),
        ("data contamination questions.jsonl --embeddings --adapter v2 --order-test", "--embeddings compares texts with a"),
        ("data check train.jsonl", "has no 'input' (it has 'prompt', 'completion'): name the field with --field input=prompt"),
        ("data check train.jsonl --field prompt=input", "--field prompt=input maps ['prompt']: the names are id, "),
        (
            "data contamination questions.jsonl --adapter v2 --min-k --base v2 --fresh train.jsonl",
            "--fresh train.jsonl cannot be read with the fields of questions.jsonl: line 1 of train.jsonl has no 'input'",
        ),
        ("data contamination questions.jsonl --adapter v3 --order-test", "adapter 'v3' is not trained with recipe 'recipes:train'"),
        ("data check nothing.jsonl", "dataset 'nothing.jsonl' does not exist"),
        ("data list questions.jsonl -o profile.doc", "-o profile.doc has an unknown format"),
        ("data list -o profile.md", "-o profile.md writes the profile of one dataset: name it"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(suite, capsys, arguments, sentence):
    write_training(suite)
    with (suite.path / "crucible.toml").open("a") as file:
        file.write('[adapters.v3]\nbackend = "local"\nrecipe = "recipes:train"\n')
    suite.test("def train(trainer): ...", name="recipes")

    assert main(arguments.split()) == 4
    assert sentence in capsys.readouterr().err


SHARED = """
    import pytest
    from pytest_crucible.datasets.checks import expect_no_missing_values, expect_prompts_to_fit


    def count(text):
        with open("counted.txt", "a") as file:
            file.write(text + chr(10))
        return 1


    def rows():
        return [{{"input": f"q {{k}}", "expected": "x"}} for k in range(20)]


    same = lambda text: count(text)


    @pytest.mark.crucible(dataset={dataset}, metrics=["exact_match"])
    @pytest.mark.data_check(expect_prompts_to_fit({most}, tokenizer={first}, severity="warn"))
    @pytest.mark.quality_target("exact_match >= 0")
    def test_first(sample):
        return "x"


    @pytest.mark.crucible(dataset={dataset}, metrics=["exact_match"])
    @pytest.mark.data_check(expect_no_missing_values("expected"))
    @pytest.mark.data_check(expect_prompts_to_fit({most}, tokenizer={second}, severity="warn"))
    @pytest.mark.quality_target("exact_match >= 0")
    def test_second(sample):
        return "x"
"""


@pytest.mark.parametrize(
    ("dataset", "first", "second", "runs"),
    [
        ("rows", "count", "count", 1),
        ("rows()", "same", "same", 1),
        ("lambda: rows()", "count", "count", 1),
        ("rows", "same", "lambda text: count(text)", 2),
    ],
)
def test_a_check_runs_once_for_all_experiments_on_one_dataset(suite, dataset, first, second, runs):
    suite.test(SHARED.format(dataset=dataset, most=0, first=first, second=second))
    result = suite.run("-W", "default")

    assert result.parseoutcomes()["passed"] == 7
    assert len((suite.path / "counted.txt").read_text().splitlines()) == runs * 20
    # The ids of samples without ids are those of each experiment.
    for name in ("test_first", "test_second"):
        result.stdout.fnmatch_lines([f"*CrucibleWarning: expect_prompts_to_fit(*: 20 of 20 *: {name}-1, {name}-10, *"])


def test_two_datasets_are_checked_each(suite):
    text = SHARED.format(dataset="rows", most=9, first="count", second="count")
    suite.test(text.replace("dataset=rows", "dataset=lambda: rows()[1:]", 1))
    suite.run()

    assert len((suite.path / "counted.txt").read_text().splitlines()) == 19 + 20


def test_an_error_names_the_samples_of_its_own_experiment(suite):
    suite.test(
        """
        import pytest
        from pytest_crucible.datasets.checks import expect_column_mean_to_be_between as mean

        ROWS = [{"input": f"q {k}", "age": k if k else "old"} for k in range(9)]
        pytestmark = [pytest.mark.quality_target("ok >= 0"), pytest.mark.data_check(mean("age", 0, 9, severity="warn"))]


        @pytest.mark.crucible(dataset=ROWS)
        def test_first(sample, score):
            score(ok=1)


        @pytest.mark.crucible(dataset=ROWS)
        def test_second(sample, score):
            score(ok=1)
        """
    )
    result = suite.run("-W", "default")

    for name in ("test_first", "test_second"):
        result.stdout.fnmatch_lines([f"*CrucibleWarning: *1 of 9 values are not numbers: {name}-1"])
