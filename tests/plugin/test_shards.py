"""Shards of a run without a database, and `crucible merge`, which makes one run of their files."""

from __future__ import annotations

import itertools
import json
import signal
import sqlite3
import time

import pytest

from pytest_crucible.runs.run_store import existing_store

ARMS = ("--crucible-adapter=v2", "--compare=v1")
NOT_COMPARED = ("id", "root", "started", "finished")


def shard_file(number, of):
    return f"crucible-shard-{number}-of-{of}.db"


def run_shards(suite, of, *arguments, run=None):
    return [(run or suite.run)(*ARMS, f"--crucible-shard={k}/{of}", *arguments) for k in range(1, of + 1)]


def without_times(document):
    run = {name: value for name, value in document["run"].items() if name not in NOT_COMPARED}
    return {**document, "run": run}


@pytest.fixture
def merge(crucible, suite):
    """Merges files: exit status, the whole output, and the document of the run."""

    def merge_files(*arguments):
        (suite.path / "merged.json").unlink(missing_ok=True)
        status, output, errors = crucible("merge", *arguments, "--json", "merged.json")
        path = suite.path / "merged.json"
        return status, output + errors, json.loads(path.read_text()) if path.exists() else None

    return merge_files


@pytest.fixture
def three_shards(suite):
    def prepare(suite):
        for result in run_shards(suite, 3):
            assert result.ret == 0

    suite.prepare_once(prepare)
    return [shard_file(number, 3) for number in (1, 2, 3)]


def test_a_shard_gives_no_verdict_and_says_what_is_next(suite):
    [first, _, _] = run_shards(suite, 3)

    first.assert_outcomes(passed=1)
    first.stdout.no_fnmatch_line("*  verdict")
    first.stdout.fnmatch_lines(
        [
            "  shard 1 of 3: * of these samples are sent, no verdicts",
            "shard 1 of 3: * replies in crucible-shard-1-of-3.db; next, with the files of all shards: "
            "crucible merge crucible-shard-[*]-of-3.db",
        ]
    )
    assert not (suite.path / ".crucible").exists()


def test_merged_shards_equal_a_plain_run_in_any_order(suite, three_shards, merge):
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))

    for number, files in enumerate(itertools.permutations(three_shards)):
        status, _, merged = merge(*files, "--store", f"{number}.db")

        assert status == 0
        assert without_times(merged) == plain


@pytest.mark.slow
@pytest.mark.parametrize("of", [1, 2, 5, 40])
def test_any_number_of_shards_equals_a_plain_run(suite, merge, of):
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))
    results = run_shards(suite, of)

    status, output, merged = merge(*(shard_file(number, of) for number in range(1, of + 1)))

    assert {int(result.ret) for result in results} == {0}
    assert status == 0, output
    assert without_times(merged) == plain


def test_two_workers_of_xdist_run_a_shard(suite, merge):
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))
    results = run_shards(suite, 2, run=suite.run_n2)

    status, _, merged = merge(shard_file(1, 2), shard_file(2, 2))

    assert {int(result.ret) for result in results} == {0}
    assert status == 0
    assert without_times(merged) == plain


def test_merging_twice_is_one_run(suite, three_shards, merge, command):
    _, _, first = merge(*three_shards)
    _, _, second = merge(*reversed(three_shards))

    assert first["run"]["id"] == second["run"]["id"]
    status, output = command("runs")
    assert (status, output.count(first["run"]["id"])) == (0, 1)


@pytest.mark.parametrize(
    "words", [["show"], ["show", "--sample", "q03"], ["verify"], ["why"], ["trace", "latest", "q03"]]
)
def test_commands_read_a_merged_run(three_shards, merge, command, words):
    merge(*three_shards)

    status, output = command(*words)

    assert status == 0, output


def test_a_missed_verdict_fails_as_in_a_session(suite, merge):
    for number in (1, 2):
        result = suite.run("--crucible-adapter=poor", f"--crucible-shard={number}/2", "--compare=v1")
        result.assert_outcomes(passed=1)

    status, output, merged = merge(shard_file(1, 2), shard_file(2, 2), "--junit", "junit.xml", "--report", "report.md")

    assert status == merged["exit_status"] == 1
    assert "FAILED test_sums.py::test_sums::exact_match >= 0.70" in output
    assert (suite.path / "junit.xml").read_text().count("<failure") == 2
    assert "0.70" in (suite.path / "report.md").read_text()


def test_a_job_summary_and_annotations_are_written(suite, merge, monkeypatch):
    for number in (1, 2):
        suite.run("--crucible-adapter=poor", f"--crucible-shard={number}/2", "--compare=v1")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    _, output, _ = merge(shard_file(1, 2), shard_file(2, 2))

    assert "exact_match" in (suite.path / "summary.md").read_text()
    assert "::error file=test_sums.py" in output


def test_an_expected_failure_stays_one(suite, merge):
    suite.test(
        """
        import pytest

        @pytest.mark.xfail(reason="known to be poor")
        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    for number in (1, 2):
        suite.run("--crucible-adapter=poor", f"--crucible-shard={number}/2")

    status, output, _ = merge(shard_file(1, 2), shard_file(2, 2))

    assert (status, "1 xfailed" in output) == (0, True)


def test_a_waiver_of_the_conftest_applies(suite, merge):
    suite.pytester.makeconftest(
        """
        from dataclasses import replace

        def pytest_crucible_verdict(verdict):
            return replace(verdict, state="met", reason="waived") if verdict.state == "missed" else None
        """
    )
    for number in (1, 2):
        suite.run("--crucible-adapter=poor", f"--crucible-shard={number}/2")

    status, _, merged = merge(shard_file(1, 2), shard_file(2, 2))

    assert (status, merged["experiments"][0]["verdicts"][0]["state"]) == (0, "met")


def test_settings_of_the_shards_decide(suite, merge):
    run_shards(suite, 2, "--crucible-strict", "-o", "crucible_undecided=fail")

    status, _, merged = merge(shard_file(1, 2), shard_file(2, 2))

    assert [verdict["state"] for verdict in merged["experiments"][0]["verdicts"]] == ["undecided", "met"]
    assert status == 1


def test_what_pytest_itself_fails_stays_failed(suite, merge):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.10")
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)

        def test_other(request):
            assert request.config.getoption("crucible_shard") != "2/2"
        """
    )
    results = run_shards(suite, 2)

    status, output, _ = merge(shard_file(1, 2), shard_file(2, 2))

    assert [int(result.ret) for result in results] == [0, 1]
    assert status == 1
    assert "the session of shard 2 of 2 failed (exit status 1): its log says why" in output


@pytest.mark.parametrize("fields", [{}, {"group": "g"}])
def test_groups_and_equal_inputs_stay_whole(suite, merge, fields):
    repeated = [(f"q{k:02}", f"question {k % 7}") for k in range(20)]
    alone = [(f"alone{k}", f"other question {k}") for k in range(10)]
    rows = [
        {"id": name, "input": text, "expected": "yes", **{field: f"{value}{k % 9}" for field, value in fields.items()}}
        for k, (name, text) in enumerate(repeated + alone)
    ]
    suite.write_rows("questions.jsonl", rows)
    for arm, right in (("v1", 3), ("v2", 4)):
        texts = [{"sample_id": row["id"], "text": "yes" if k % 6 < right else "no"} for k, row in enumerate(rows)]
        suite.write_rows(f"answers/{arm}.jsonl", texts)
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))
    run_shards(suite, 3)

    _, _, merged = merge(*(shard_file(number, 3) for number in (1, 2, 3)))

    assert without_times(merged) == plain
    groups = [groups_in(suite.path / shard_file(number, 3)) for number in (1, 2, 3)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == plain["experiments"][0]["dataset"]["groups"]


def groups_in(path):
    query = """
        SELECT DISTINCT COALESCE(sample_group, sample_id) FROM samples
        JOIN replies ON replies.position = samples.position
    """
    connection = sqlite3.connect(path)
    try:
        return {group for (group,) in connection.execute(query)}
    finally:
        connection.close()


def test_joined_tests_are_divided_by_their_items(suite, merge, run):
    suite.test(
        """
        import pytest

        @pytest.mark.parametrize("k", range(20))
        @pytest.mark.ab_compare("right")
        @pytest.mark.quality_target("right >= 0.5")
        def test_sums(crucible, k):
            crucible.score(right=k % 3 > 0)
        """
    )
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))
    results = run_shards(suite, 3, run=run)

    status, output, merged = merge(*(shard_file(number, 3) for number in (1, 2, 3)))

    assert sum(result.parseoutcomes()["passed"] for result in results) == 40
    assert status == 0, output
    assert without_times(merged) == plain


def test_shards_without_a_sample_pass(suite, merge):
    suite.test(
        """
        import pytest

        @pytest.mark.parametrize("k", range(2))
        @pytest.mark.quality_target("right >= 0.5")
        def test_few(crucible, k):
            crucible.score(right=True)
        """
    )
    results = [suite.run(f"--crucible-shard={number}/4") for number in (1, 2, 3, 4)]

    status, output, merged = merge(*(shard_file(number, 4) for number in (1, 2, 3, 4)))

    assert {int(result.ret) for result in results} == {0}
    assert status == 0, output
    assert merged["experiments"][0]["estimates"][0]["n"] == 2


def test_each_shard_has_its_part_of_budgets_and_limits(suite, merge):
    suite.script(
        """
        def answer(request):
            return "yes"

        def base(request):
            return "no"
        """
    )
    arms = ("--crucible-adapter=scripted", "--compare=base", "--crucible-budget=30 requests")
    for number in (1, 2):
        result = suite.run(*arms, f"--crucible-shard={number}/2")
        result.stdout.fnmatch_lines([f"shard {number} of 2: * replies in *"])

    _, _, merged = merge(shard_file(1, 2), shard_file(2, 2))

    [budget] = merged["run"]["budgets"]
    assert budget["budget"] == "30 requests"
    assert budget["requests"] <= 30
    assert budget["said"] == f"{budget['requests']:.0f} of 30 requests spent"


# -- shards that did not end -------------------------------------------------------------------------------------------


SLOW = """
    import time
    from pathlib import Path

    def answer(request):
        with Path("calls.txt").open("a") as file:
            file.write(request.sample + "\\n")
        if Path("slow").exists():
            time.sleep(0.3)
        return "yes"

    def base(request):
        return "no"
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_shard_is_merged_undecided_and_goes_on(suite, merge, number):
    suite.script(SLOW)
    (suite.path / "slow").touch()
    arms = ("-p", "no:asyncio", "--crucible-adapter=scripted", "--crucible-concurrency=1")
    suite.run(*arms, "--crucible-shard=1/2").assert_outcomes(passed=1)
    suite.forget_calls()
    process = suite.popen(*arms, "--crucible-shard=2/2")
    while len(suite.calls()) < 6:
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(timeout=60)

    status, output, merged = merge(shard_file(1, 2), shard_file(2, 2), "--store", "cut.db")

    assert status == 1
    assert "shard 2 of 2 was interrupted: run it again with --crucible-resume" in output
    assert merged["experiments"][0]["verdicts"][0]["state"] == "undecided"
    (suite.path / "slow").unlink()
    before = len(suite.calls())
    suite.run(*arms, "--crucible-shard=2/2", "--crucible-resume").assert_outcomes(passed=1)
    status, output, merged = merge(shard_file(1, 2), shard_file(2, 2), "--store", "whole.db")
    assert merged["experiments"][0]["estimates"][0]["n"] == 20
    # At most what was in flight, or written within the last half second, is requested again.
    assert len(suite.calls()) - len(set(suite.calls())) <= 3
    assert before < len(suite.calls())


def test_a_missing_shard_makes_verdicts_undecided(three_shards, merge):
    status, output, merged = merge(*three_shards[:2])

    assert status == 1
    assert "shard 3 of 3 is missing: verdicts are undecided; add it" in output
    assert {verdict["state"] for verdict in merged["experiments"][0]["verdicts"]} == {"undecided"}


def test_a_shard_that_is_given_twice_counts_once(suite, three_shards, merge):
    (suite.path / "copy.db").write_bytes((suite.path / three_shards[0]).read_bytes())

    status, output, merged = merge(*three_shards, three_shards[1], "copy.db")

    assert status == 0
    assert f"{three_shards[1]} was given twice: counted once\ncopy.db was given twice: counted once" in output
    assert merged["experiments"][0]["estimates"][0]["n"] == 20


# -- bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--crucible-shard=9/8"], "--crucible-shard=9/8: expected 1/8 to 8/8"),
        (["--crucible-shard=0/8"], "--crucible-shard=0/8: expected 1/8 to 8/8"),
        (["--crucible-shard=a/b"], "--crucible-shard=a/b: expected a part such as 3/8"),
        (["--crucible-shard=1/0"], "--crucible-shard=1/0: expected a part such as 3/8"),
        *(
            (["--crucible-shard=1/2", *option], f"--crucible-shard cannot be combined with {name}: remove one")
            for name, option in {
                "--crucible-stop": ["--crucible-stop"],
                "crucible_stages": ["-o", "crucible_stages=smoke: 5, full"],
                "--crucible-estimate": ["--crucible-estimate"],
                "--crucible-sample": ["--crucible-sample=q01"],
                "--crucible-executor": ["--crucible-executor=ray"],
                "--crucible-json": ["--crucible-json=run.json"],
                "--crucible-report": ["--crucible-report=run.html"],
            }.items()
        ),
    ],
)
def test_bad_options_of_a_shard_are_refused(suite, options, sentence):
    suite.refuses(suite.run(*ARMS, *options), sentence.replace("[", "[[]"))
    assert not list(suite.path.glob("*.db"))


def test_a_store_with_other_runs_is_refused(suite):
    suite.run(*ARMS, "--crucible-store=all.db")

    result = suite.run(*ARMS, "--crucible-shard=1/2", "--crucible-store=all.db")

    suite.refuses(
        result, "*all.db has run *, which is not of shard 1 of 2: a shard needs a store of its own, name another*"
    )


def refuse(merge, files, sentence, suite):
    """Exit status 4, one sentence, and no run store."""
    status, output, _ = merge(*files, "--store", "new.db")
    assert (status, output.strip()) == (4, f"crucible merge: {sentence}")
    assert not (suite.path / "new.db").exists()


def test_shards_of_two_divisions_are_refused(suite, three_shards, merge):
    suite.run(*ARMS, "--crucible-shard=2/4")

    sentence = "shards 1 of 3 and 2 of 4 overlap: merge shards of one division"
    refuse(merge, [*three_shards, shard_file(2, 4)], sentence, suite)


def test_two_runs_of_a_shard_are_refused(suite, three_shards, merge):
    suite.run(*ARMS, "--crucible-shard=1/3", "--crucible-store=again.db")

    sentence = "crucible-shard-1-of-3.db and again.db are two runs of shard 1 of 3: give one of them"
    refuse(merge, [*three_shards, "again.db"], sentence, suite)


def change_run(path, change):
    """Change the facts of the run of a file, as another machine would have written them."""
    connection = sqlite3.connect(path)
    change(connection)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            """UPDATE runs SET git = '{"commit": "77ab000000", "branch": "main", "dirty": false}'""",
            "crucible-shard-3-of-3.db ran at commit 77ab000, the others at none: run it again",
        ),
        ("UPDATE runs SET seed = 7", "crucible-shard-3-of-3.db ran with seed 7, the others with 0: run it again"),
        (
            "UPDATE runs SET environment = json_set(environment, '$.packages.numpy', '1.0')",
            "crucible-shard-3-of-3.db ran with numpy 1.0, the others with *: run it again",
        ),
        (
            "UPDATE runs SET manifest = json_set(manifest, '$.settings.strict', json('true'))",
            "crucible-shard-3-of-3.db ran with crucible_strict = true, the others with false: run it again",
        ),
        (
            "UPDATE experiments SET plan = json_set(plan, '$.dataset_sha256', '77ab')",
            "crucible-shard-3-of-3.db ran with dataset 77ab in test_sums, the others with *: run it again",
        ),
        (
            "UPDATE experiments SET plan = json_set(plan, '$.arms[0].identity', '77ab')",
            "crucible-shard-3-of-3.db ran with adapter 'v2' * in test_sums, the others with *: run it again",
        ),
        (
            "UPDATE experiments SET plan = json_set(plan, '$.fingerprint.metrics', '77ab')",
            "crucible-shard-3-of-3.db ran with metrics 77ab in test_sums, the others with *: run it again",
        ),
        (
            "UPDATE experiments SET nodeid = 'test_sums.py::test_other'",
            "crucible-shard-3-of-3.db ran with the tests test_other, the others with test_sums: run it again",
        ),
        (
            "UPDATE experiments SET plan = '[1]'",
            "crucible-shard-3-of-3.db cannot be read (*): get the file from its job again",
        ),
        (
            "UPDATE store_format SET version = 99",
            "crucible-shard-3-of-3.db: this store has format 99, and this version reads *",
        ),
    ],
)
def test_a_shard_of_another_run_is_refused(suite, three_shards, merge, statement, sentence):
    change_run(suite.path / three_shards[2], lambda connection: connection.execute(statement))

    status, output, _ = merge(*three_shards, "--store", "new.db")

    assert status == 4
    pytest.LineMatcher([output.strip()]).fnmatch_lines([f"crucible merge: {sentence}"])
    assert not (suite.path / "new.db").exists()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM replies; END", "trigger 't'"),
        ("CREATE VIEW v AS SELECT load_extension('evil')", "view 'v'"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "virtual table 'f'"),
    ],
)
def test_a_file_that_would_execute_something_is_refused(suite, three_shards, merge, statement, what):
    change_run(suite.path / three_shards[1], lambda connection: connection.execute(statement))

    sentence = f"crucible-shard-2-of-3.db has a {what} that would be executed: get the file from its job again"
    refuse(merge, three_shards, sentence, suite)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"hello",
            "run store 'bad.db' is not a run store (another kind of file, or corrupt): move it away, or name another one",
        ),
        (b"", "bad.db is empty: get the file from its job again"),
    ],
)
def test_a_file_that_is_no_store_is_refused(suite, three_shards, merge, content, sentence):
    (suite.path / "bad.db").write_bytes(content)

    refuse(merge, [*three_shards[:2], "bad.db"], sentence, suite)


def test_a_file_that_was_cut_off_is_refused(suite, three_shards, merge):
    whole = (suite.path / three_shards[1]).read_bytes()
    (suite.path / three_shards[1]).write_bytes(whole[: len(whole) // 8])

    refuse(merge, three_shards, "crucible-shard-2-of-3.db is corrupt: get the file from its job again", suite)


def test_a_store_without_a_shard_and_a_missing_file_are_refused(suite, three_shards, merge):
    suite.run(*ARMS, "--crucible-store=plain.db")

    sentence = "plain.db has no run of a shard: name the files that --crucible-shard wrote"
    refuse(merge, [*three_shards, "plain.db"], sentence, suite)
    sentence = "x.db is not a file: name those that --crucible-shard wrote, such as crucible-shard-*.db"
    refuse(merge, [*three_shards, "x.db"], sentence, suite)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE observations SET value = 'much'",
            "*has a value of another kind in observations.value: run its job again",
        ),
        (
            "INSERT INTO replies (arm, position, epoch, text, skipped) SELECT 1, n, 0, 'x', 0 FROM "
            "(SELECT position AS n FROM samples WHERE position NOT IN (SELECT position FROM replies))",
            "*has replies to samples of another shard: run its job again",
        ),
    ],
)
def test_rows_that_no_shard_has_leave_no_run(suite, three_shards, merge, statement, sentence):
    change_run(suite.path / three_shards[1], lambda connection: connection.execute(statement))

    status, output, _ = merge(*three_shards)

    assert status == 4
    assert output.count("\n") < 12
    pytest.LineMatcher(output.splitlines()).fnmatch_lines([f"ERROR: {sentence}"])
    with existing_store(str(suite.path / ".crucible" / "crucible.db")) as store:
        assert store.scalar("SELECT COUNT(*) FROM runs") == store.scalar("SELECT COUNT(*) FROM replies") == 0


@pytest.mark.slow
def test_postgresql_takes_a_merged_run(suite, three_shards, merge, postgresql):
    plain = without_times(suite.json(*ARMS, "--crucible-store=plain.db"))

    status, output, merged = merge(*three_shards, "--store", postgresql)

    assert status == 0, output
    assert without_times(merged) == plain
