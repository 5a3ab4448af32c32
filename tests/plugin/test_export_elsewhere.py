"""`crucible export` in the formats of other harnesses: what our readers find there is what the run has."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from run_documents import of_arms

from pytest_crucible.cli import main
from pytest_crucible.exports.results import safe_name
from pytest_crucible.exports.tracked_run import numbers as numbers_of
from pytest_crucible.importers.formats import READERS
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.runs import RunStore

SCRIPTS = """
    from pytest_crucible import BackendError, Reply

    def answer(request):
        number = int(request.sample[1:])
        if request.sample == "q05" and request.repeat:
            raise BackendError("rebooted, it says")
        if request.sample == "q06":
            return Reply(text="1", finish="length")
        return Reply(text=str(2 * number) if number % 3 else "你好 ?", input_tokens=7, output_tokens=2)

    def base(request):
        return Reply(text="0")
"""
TEST = """
    import pytest
    from pytest_crucible import metric

    @metric(bounds=(0, 1))
    def size(reply, sample):
        if sample.id == "q07":
            raise ValueError("no ruler")
        return len(reply.text) / 10

    @metric(direction="lower", kind="positive")
    def words(reply, sample):
        return 1.0 + len(reply.text.split())

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", size, words], epochs=EPOCHS)
    @pytest.mark.quality_target("exact_match >= 0.95")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=scripted", "--compare=base")


def run_suite(suite, epochs: int) -> None:
    suite.script(SCRIPTS)
    suite.write_rows(
        "questions.jsonl",
        [{"id": f"q{k:02}", "input": f"{k} + {k}", "expected": str(2 * k), "group": f"page {k // 4}", "level": k % 2}
         for k in range(20)],
    )  # fmt: skip
    suite.test(TEST.replace("EPOCHS", str(epochs)))
    suite.run(*ARMS)


def run_with_repeats(suite) -> None:
    run_suite(suite, 2)


def run_without_repeats(suite) -> None:
    run_suite(suite, 1)


@pytest.fixture
def repeated(suite, monkeypatch):
    """A suite with a run of two repeats in its store."""
    suite.prepare_once(run_with_repeats)
    monkeypatch.chdir(suite.path)
    return suite


@pytest.fixture
def single(suite, monkeypatch):
    """A suite with a run of one repeat in its store."""
    suite.prepare_once(run_without_repeats)
    monkeypatch.chdir(suite.path)
    return suite


def document(capsys, *arguments: str) -> dict:
    capsys.readouterr()
    assert main([*arguments, "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def numbers(run: dict) -> dict:
    """Return n, lost and value of each mean, by the number of its arm and its metric."""
    [experiment] = run["experiments"]
    places = {arm["name"]: number for number, arm in enumerate(experiment["arms"])}
    return {
        (places[each["arm"]], each["metric"]): (each["n"], each["lost"], pytest.approx(each["value"]), each["clusters"])
        for each in experiment["estimates"]
        if each["statistic"] == "mean"
    }


def test_logs_of_inspect_have_the_same_samples_repeats_groups_and_scores(repeated, capsys):
    session = document(capsys, "show")
    assert main(["export", "--what", "inspect", "-o", "logs"]) == 0
    output = capsys.readouterr().out
    files = sorted(map(str, Path("logs").glob("*.eval")), key=lambda name: "base" in name)
    again = document(capsys, "import", *files, "--store", "again.db")

    assert output.count("40 results of run") == 2
    assert numbers(again) == numbers(session)
    [ours], [theirs] = again["experiments"], session["experiments"]
    assert (ours["repeats"], ours["dataset"]["groups"]) == (theirs["repeats"], theirs["dataset"]["groups"]) == (2, 5)
    # A cut reply has no worst number of words: its value counts as lost, and its file has no failures to count apart.
    assert of_arms(theirs, "lost") == [{"error": 1, "scorer": 2}, {"scorer": 2}]
    assert of_arms(ours, "lost") == [{"error": 1, "scorer": 2 + 2}, {"scorer": 2}]
    [pair] = [each for each in ours["comparisons"] if each["metric"] == "exact_match"]
    assert {name: pair[name] for name in ("pairs", "difference", "clusters", "p_value")} == {
        name: theirs["comparisons"][0][name] for name in ("pairs", "difference", "clusters", "p_value")
    }


def test_a_log_has_the_reason_of_each_loss(repeated):
    main(["export", "--what", "inspect", "-o", "logs"])
    [path] = Path("logs").glob("*scripted.eval")
    with zipfile.ZipFile(path) as archive:
        failed = json.loads(archive.read("samples/q05_epoch_2.json"))
        unscored = json.loads(archive.read("samples/q07_epoch_1.json"))
        cut = json.loads(archive.read("samples/q06_epoch_1.json"))
        header = json.loads(archive.read("header.json"))

    assert (failed["error"]["message"], failed["scores"]) == ("error; rebooted, it says", {})
    assert "no ruler" in unscored["scores"]["size"]["metadata"]["unscored_reason"]
    # A reply that was cut is the candidate's failure: the worst score.
    assert (cut["output"]["choices"][0]["stop_reason"], cut["scores"]["exact_match"]["value"]) == ("max_tokens", False)
    assert header["status"] == "success"


def test_samples_of_lm_eval_have_the_same_samples_groups_and_scores(single, capsys):
    session = document(capsys, "show")
    assert main(["export", "--what", "lm-eval", "-o", "lm"]) == 0
    again = document(capsys, "import", "lm/scripted", "lm/base", "--group", "group", "--store", "again.db")

    assert numbers(again) == numbers(session)
    assert again["experiments"][0]["dataset"]["groups"] == 5
    directions = {each["name"]: each["direction"] for each in again["experiments"][0]["metrics"]}
    assert directions == {"exact_match": "higher", "size": "higher", "words": "lower"}


def test_repeats_are_refused_where_the_format_has_none(repeated, capsys):
    assert main(["export", "--what", "lm-eval", "-o", "lm"]) == 4
    assert capsys.readouterr().err == (
        "crucible export: --what lm-eval: test_sums has 2 repeats, and the format one score for each sample: write --what "
        "inspect or --what eee\n"
    )


def test_every_eval_ever_has_a_line_for_each_score(repeated, capsys):
    session = document(capsys, "show")
    assert main(["export", "--what", "eee", "--developer", "acme", "-o", "out"]) == 0
    [path] = Path("out/data/test_sums/acme/scripted").glob("*_samples.jsonl")
    aggregate = json.loads(path.with_name(path.name.replace("_samples.jsonl", ".json")).read_text())
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    assert len(rows) == 20 * 2 * 3 == aggregate["detailed_evaluation_results"]["total_rows"]
    results = {each["evaluation_result_id"]: each for each in aggregate["evaluation_results"]}
    for (arm, metric), (n, lost, value, _) in numbers(session).items():
        if arm == 0:
            details = results[metric]["score_details"]
            assert (details["uncertainty"]["num_samples"], details["details"]["lost"]) == (n, str(lost))
            assert details["score"] == value
    lost = {(row["sample_id"], row["metadata"]["epoch"], row["evaluation_result_id"]) for row in rows if row["error"]}
    of_scorers = {(name, repeat, metric) for name, metric in (("q07", "size"), ("q06", "words")) for repeat in "12"}
    assert lost == {*(("q05", "2", metric) for metric in ("exact_match", "size", "words")), *of_scorers}
    assert {row["metadata"]["group"] for row in rows} == {f"page {k}" for k in range(5)}
    assert [results[name]["metric_config"]["lower_is_better"] for name in ("exact_match", "words")] == [False, True]


def test_every_eval_ever_is_read_with_the_same_samples_repeats_groups_and_scores(repeated, capsys):
    if "every-eval-ever" not in READERS:
        pytest.skip("there is no reader of Every Eval Ever")
    session = document(capsys, "show")
    main(["export", "--what", "eee", "-o", "out"])
    files = [
        str(path) for arm in ("scripted", "base") for path in Path(f"out/data/test_sums/unknown/{arm}").glob("*.json")
    ]
    again = document(capsys, "import", *files, "--store", "again.db")

    assert numbers(again) == numbers(session)
    [ours] = again["experiments"]
    assert (ours["repeats"], ours["dataset"]["groups"]) == (2, 5)


def test_each_export_writes_the_same_files(repeated, capsys):
    for folder in ("first", "second"):
        for what in ("eee", "inspect"):
            main(["export", "--what", what, "-o", folder])
    first, second = ({path.relative_to(name): path for path in Path(name).rglob("*.*")} for name in ("first", "second"))

    assert first.keys() == second.keys()
    assert all(path.read_bytes() == second[name].read_bytes() for name, path in first.items() if path.suffix != ".eval")


def test_tests_of_one_name_in_two_files_have_files_and_numbers_of_their_own(suite, monkeypatch, capsys):
    run_without_repeats(suite)
    suite.test(TEST.replace("EPOCHS", "1").replace('"exact_match', '"contains_expected'), name="test_more")
    suite.run(*ARMS)
    monkeypatch.chdir(suite.path)
    capsys.readouterr()
    places = {}
    for what in ("inspect", "lm-eval", "eee"):
        assert main(["export", "--what", what, "-o", what]) == 0
        places[what] = [line.partition(" written to ")[2] for line in capsys.readouterr().out.splitlines()]
    with contextlib.closing(RunStore(".crucible/crucible.db")) as store:
        values = numbers_of(load_run(store, store.find_run()))

    for what, names in places.items():
        files = [name for name in names if name]
        assert len(set(files)) == len(files) == 4, what
        assert all(Path(name).exists() for name in files)
    assert values["test_sums.py::test_sums.base.exact_match.n"] == 20
    assert values["test_more.py::test_sums.base.contains_expected.n"] == 20


def test_two_long_names_with_one_beginning_are_two_file_names():
    names = [safe_name("test_claims[" + 90 * "x" + end) for end in "ab"]

    assert names[0] != names[1]
    assert {len(name) for name in names} == {80}


def test_arms_whose_files_would_have_one_name_are_refused(suite, monkeypatch, capsys):
    suite.script(
        SCRIPTS,
        others={
            "v+1": {"backend": "scripted", "script": "scripts:base"},
            "v-1": {"backend": "scripted", "script": "scripts:answer"},
        },
    )
    suite.write_rows("questions.jsonl", [{"id": f"q{k:02}", "input": f"{k}", "expected": "0"} for k in range(3)])
    suite.test(TEST.replace("EPOCHS", "1"))
    suite.run("--crucible-adapter=v+1", "--compare=v-1")
    monkeypatch.chdir(suite.path)
    capsys.readouterr()

    assert main(["export", "--what", "inspect", "-o", "logs"]) == 4
    error = capsys.readouterr().err
    assert error.startswith("crucible export: two tests or arms have one file, logs/")
    assert error.endswith("which has only the last: rename one, or export as eee\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--what", "inspect"), "--what inspect needs -o FOLDER: its files have names of their own"),
        (("--what", "inspect", "-o", "questions.jsonl"), "-o questions.jsonl is not a folder: File exists"),
        (
            ("--what", "inspect", "--developer", "x", "-o", "a"),
            "--developer is for --what eee, not for --what inspect: ",
        ),
        (("--what", "eee", "latest", "latest", "-o", "a"), "--what eee writes one run, not of 2"),
        (("--what", "eee", "--seed", "1", "-o", "a"), "--seed is for training sets, and --what eee is not one: "),
    ],
)
def test_an_invalid_argument_is_one_sentence(repeated, capsys, arguments, sentence):
    assert main(["export", *arguments]) == 4
    error = capsys.readouterr().err
    assert error.startswith(f"crucible export: {sentence}")
    assert error.count("\n") == 1


def test_a_junit_file_of_a_stored_run_has_the_cases_of_its_session(single, capsys):
    single.run(*ARMS, "--junitxml=session.xml")
    assert main(["report", "-o", "stored.junit.xml"]) == 0
    session, stored = (
        {(case.get("classname"), case.get("name")): case for case in ElementTree.parse(name).iter("testcase")}
        for name in ("session.xml", "stored.junit.xml")
    )

    assert stored.keys() == {key for key in session if key[0] != "test_sums"}
    for key, case in stored.items():
        assert properties(case) == properties(session[key])
        assert [child.tag for child in case if child.tag != "properties"] == [
            child.tag for child in session[key] if child.tag != "properties"
        ]


def properties(case: ElementTree.Element) -> dict[str, str | None]:
    return {str(each.get("name")): each.get("value") for each in case.iter("property")}
