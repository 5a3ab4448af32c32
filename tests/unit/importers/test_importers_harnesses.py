"""Files that harnesses wrote are read: harness, version, task, arms, repeats, samples and scores."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from imported_files import find, find_row, read_arm, read_changed

from pytest_crucible.importers.formats import READERS, find_harness, read
from pytest_crucible.importers.results import Results
from pytest_crucible.importers.sources import open_source
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import ImportedRun, ImportOptions

READ = {
    "inspect-v2.eval": ("inspect", "0.3.285", "sums", ["mockllm/v2"], 2),
    "inspect-v1.json": ("inspect", "0.3.285", "sums", ["mockllm/v1"], 2),
    "deepeval-v2.json": ("deepeval", "", "deepeval", ["v2"], 1),
    "promptfoo.json": ("promptfoo", "0.121.20", "sums", ["v2", "v1"], 2),
    "promptfoo.jsonl": ("promptfoo", "", "promptfoo", ["v2", "v1"], 2),
    "openai-evals-v1.jsonl": ("openai-evals", "", "sums.dev.v0", ["v1"], 1),
    "mlflow-genai-v2.json": ("mlflow", "", "mlflow", ["mlflow-genai-v2"], 1),
    "mlflow-genai-v2.csv": ("mlflow", "", "mlflow", ["mlflow-genai-v2"], 1),
    "mlflow-genai-v2.parquet": ("mlflow", "", "mlflow", ["mlflow-genai-v2"], 1),
    "helm-v2/per_instance_stats.json": ("helm", "", "simple_mcqa", ["sums/v2"], 1),
    "garak-v2.report.jsonl": ("garak", "0.17.1", "garak", ["test.Repeat"], 2),
    "ragas-v2.jsonl": ("ragas", "", "ragas", ["ragas-v2"], 1),
    "ragas-v2.csv": ("ragas", "", "ragas", ["ragas-v2"], 1),
    "ragas-v2.parquet": ("ragas", "", "ragas", ["ragas-v2"], 1),
    "evalplus-v2_eval_results.json": ("evalplus", "", "HumanEval", ["evalplus-v2"], 2),
    "langsmith-v2.csv": ("langsmith", "", "langsmith", ["langsmith-v2"], 2),
    "langsmith-v2.jsonl": ("langsmith", "", "langsmith", ["langsmith-v2"], 2),
    "phoenix-v2.json": ("phoenix", "", "phoenix", ["phoenix-v2"], 2),
    "phoenix-v2.csv": ("phoenix", "", "phoenix", ["phoenix-v2"], 2),
    "braintrust-v2.json": ("braintrust", "", "sums", ["v2"], 2),
    "opencompass/results/v2/sums.json": ("opencompass", "", "sums", ["v2"], 1),
    "opencompass/results/v2/sums_twice.json": ("opencompass", "", "sums_twice", ["v2"], 2),
    "opencompass/results/v2/sums_choice.json": ("opencompass", "", "sums_choice", ["v2"], 1),
    "mlflow.json": ("table", "", "results", ["v2", "v1"], 1),
    "wandb.json": ("table", "", "results", ["v2", "v1"], 1),
    "pydantic-evals-v2.json": ("pydantic-evals", "", "sums", ["v2"], 2),
    "pytest-evals.json": ("pytest-evals", "", "sums", ["v2", "v1"], 1),
    "pytest-evals.csv": ("pytest-evals", "", "sums", ["v2", "v1"], 1),
    "pytest-harvest.json": ("pytest-harvest", "", "test_sum", ["v2", "v1"], 1),
    "pytest-harvest.csv": ("pytest-harvest", "", "test_sum", ["v2", "v1"], 1),
    "swe-bench-v2.json": ("swe-bench", "", "swe-bench", ["swe-bench-v2"], 1),
    "bfcl/v2/score/*/*/*": ("bfcl", "", "BFCL_v4_simple_python", ["v2"], 1),
    "verifiers/v2/traces.jsonl": ("verifiers", "0.4.0", "sums-v1", ["v2"], 2),
    "verifiers-results/v2/results.jsonl": ("verifiers-results", "", "sums", ["v2"], 2),
    "lighteval/details/sums/v2/*/*": ("lighteval", "", "sums|0", ["sums/v2"], 1),
    "tau2-v2.json": ("tau2", "", "sums", ["v2"], 3),
    "opik-v2.json": ("opik", "", "sums", ["v2"], 1),
    "opik-results-v2.json": ("opik-results", "", "opik-results", ["opik-results-v2"], 1),
    "weave-v2.jsonl": ("weave", "", "weave", ["v2"], 1),
    "alpaca-eval-v2.json": ("alpaca-eval", "", "alpaca_eval against reference", ["v2"], 1),
    "eee-lm-eval-v2_samples.jsonl": ("every-eval-ever", "0.3.0", "sums_choice", ["sums/v2"], 1),
    "lm-eval-v1/samples_sums_choice*": ("lm-eval", "0.4.13", "sums_choice", ["v1"], 1),
}


def means(results: Results) -> dict[str, float]:
    """Return the mean of each metric over the scored rows."""
    total, n = Counter(), Counter()
    for row in results.rows:
        for name, value in row.scores.items():
            total[name] += value
            n[name] += 1
    return {name: total[name] / n[name] for name in n}


@pytest.mark.parametrize(
    ("pattern", "samples", "name"),
    [
        ("inspect-v1.json", lambda document: document["samples"], "metadata"),
        ("deepeval-v1.json", lambda document: document["testCases"], "additionalMetadata"),
        ("promptfoo.json", lambda document: [row["testCase"] for row in document["results"]["results"]], "metadata"),
    ],
)
def test_the_metadata_of_samples_is_read(pattern, samples, name, tmp_path):
    def change(document):
        for sample in samples(document):
            sample[name] = {"topic": "sums"}

    imported = read_changed(tmp_path, pattern, change)

    assert {json.dumps(row.metadata) for results in imported.results for row in results.rows} == {'{"topic": "sums"}'}


@pytest.mark.parametrize("pattern", READ)
def test_a_file_has_its_harness_version_task_arms_and_repeats(pattern, tmp_path):
    harness, version, task, arms, repeats = READ[pattern]
    imported = read(find(pattern))
    renamed = tmp_path / f"file{find(pattern).suffix}"
    renamed.write_bytes(find(pattern).read_bytes())

    # A file is recognised by its content.
    assert find_harness(open_source(renamed), READERS) == harness
    assert (imported.harness, imported.version) == (harness, version)
    assert [results.arm for results in imported.results] == arms
    assert {(results.task, results.repeats) for results in imported.results} == {(task, repeats)}


def test_every_reader_reads_a_file_of_its_harness():
    assert {harness for harness, *_ in READ.values()} == set(READERS)


def test_an_archive_and_its_json_form_have_equal_rows(tmp_path):
    """Both were written of one log."""
    archive, document = read(find("inspect-v1.eval")), read(find("inspect-v1.json"))

    assert sorted(archive.results[0].rows, key=str) == sorted(document.results[0].rows, key=str)
    assert archive.sha256 != document.sha256


class TestInspect:
    @pytest.mark.parametrize(
        ("sample", "expected"),
        [
            ("sum-1", {"graded": 0.0}),
            ("sum-2", {"graded": 1.0}),
            # A scorer of two values has two metrics.
            ("sum-10", {"graded": 0.5, "shape.length": 17.0, "shape.digits": 2.0}),
        ],
    )
    def test_scores_are_numbers(self, sample, expected):
        scores = find_row(read_arm("inspect-v2.eval"), sample).scores

        assert {name: scores[name] for name in expected} == expected

    def test_unscored_and_failed_samples_are_lost(self):
        results = read_arm("inspect-v2.eval")
        unscored, failed = find_row(results, "sum-12", 1), find_row(results, "sum-11")

        assert "graded" not in unscored.scores
        assert unscored.lost == {"graded": "the scorer gave no value"}
        assert (failed.error, failed.scores) == ("RuntimeError('the model server went away')", {})

    def test_a_reply_has_its_tokens(self):
        reply = find_row(read_arm("inspect-v2.eval"), "sum-10").reply

        assert (reply.text, reply.input_tokens, reply.output_tokens) == ("It is 20, I think", 9, 5)

    def test_the_cluster_of_the_standard_error_is_the_group(self):
        """Ten questions on a document that v2 has and v1 has not: p = 0.002 of 60 samples.

        Of 6 documents one differs, which shows nothing.
        """
        files = [read(find(f"inspect-clusters-{name}.eval")) for name in ("v2", "v1")]
        run = ImportedRun.of(files, ImportOptions()).evaluate_unstored()

        (comparison,) = run.experiments[0].comparisons
        assert (comparison.contrast.metric, comparison.pairs, comparison.clusters) == ("found", 60, 6)
        assert comparison.difference == pytest.approx(1 / 6)
        assert comparison.p_value == 1.0
        assert [verdict.proven for verdict in run.verdicts] == [False]

    def test_two_clusters_need_a_choice(self, tmp_path):
        def change(log):
            for sample in log["samples"]:
                sample["metadata"] = {"doc": "d", "author": sample["id"][-1]}
            metrics = [{"name": "inspect_ai/stderr", "options": {"cluster": key}} for key in ("doc", "author")]
            log["eval"]["scorers"][0]["metrics"] = {"a": metrics[:1], "b": [*metrics[1:]]}

        with pytest.raises(SpecError, match=r"several clusters \(doc, author\): choose one with --group KEY"):
            read_changed(tmp_path, "inspect-v1.json", change)
        rows = read_arm(tmp_path / "v2.json", group="author").rows
        assert {row.group for row in rows} == set("0123456789")

    def test_values_averaged_as_accuracies_are_from_0_to_1(self):
        """The log averages `right` and each `part_*` as accuracies, and only the mean of `length`."""
        facts = read_arm("inspect-values.eval").facts

        assert {name: (fact.low, fact.high) for name, fact in facts.items()} == {
            "values.right": (0.0, 1.0),
            "values.part_a": (0.0, 1.0),
        }

    def test_a_cluster_inside_a_grouped_metric_is_found(self):
        assert [row.group for row in read_arm("inspect-values.eval").rows] == ["d0", "d0", "d1", "d1"]

    def test_grades_in_a_value_are_from_0_to_1(self, tmp_path):
        def change(log):
            for sample in log["samples"]:
                sample["scores"]["shape"]["value"] = {"grade": "C"}

        imported = read_changed(tmp_path, "inspect-v1.json", change)

        assert imported.results[0].facts["shape.grade"].high == 1.0

    def test_a_run_that_ended_before_a_sample_was_scored_is_an_error(self, tmp_path):
        def change(log):
            log["status"] = "error"
            log["reductions"] = []
            for sample in log["samples"]:
                sample["scores"] = {}

        with pytest.raises(SpecError, match=r"24 samples and no scores \(its run ended as 'error'\): run it again"):
            read_changed(tmp_path, "inspect-v1.json", change)

    def test_notes_name_metrics_with_lists_or_text(self):
        assert read(find("inspect-clusters-v1.eval")).notes == (
            "metric 'spans' of inspect-clusters-v1.eval has lists as values, left out",
            "metric 'comment' of inspect-clusters-v1.eval has text as values, left out",
        )

    def test_means_equal_those_that_inspect_computed(self):
        document = json.loads(find("inspect-v1.json").read_text())["results"]["scores"]
        computed = {
            score["name"]: metric["value"] for score in document for metric in list(score["metrics"].values())[:1]
        }
        ours = {name.removeprefix("shape."): mean for name, mean in means(read_arm("inspect-v1.eval")).items()}

        assert ours == pytest.approx(computed)
        assert computed["graded"] == pytest.approx(4.5 / 11)


class TestGroups:
    @pytest.mark.parametrize(
        ("pattern", "key", "groups"),
        [
            ("inspect-clusters-v1.eval", "doc", {f"doc-{k}" for k in range(6)}),
            ("lm-eval-v1/samples_sums_choice*", "label", {"0"}),
            ("promptfoo.json", "k", set("12345678")),
            ("mlflow.json", "outputs", None),
        ],
    )
    def test_a_key_of_the_samples_is_their_group(self, pattern, key, groups):
        rows = read(find(pattern), group=key).results[0].rows

        assert {row.group for row in rows} == (groups or {row.reply.text for row in rows})

    def test_an_unknown_key_is_an_error_with_a_suggestion(self):
        with pytest.raises(SpecError, match=r"--group dok: no sample has this key: did you mean 'doc'\? there are doc"):
            read(find("inspect-clusters-v1.eval"), group="dok")


class TestPromptfoo:
    def test_repeats_of_a_test_are_repeats_of_its_sample(self):
        counts = Counter(row.sample for row in read_arm("promptfoo.json").rows)

        assert counts == {f"sum-{k}": 2 for k in range(1, 9)}

    @pytest.mark.parametrize("has_descriptions", [True, False])
    def test_two_tests_of_one_prompt_are_two_samples(self, tmp_path, has_descriptions):
        """The second test has the variables of the first. Otherwise each other test would lack repeats, which are lost."""

        def change(document):
            results = document["results"]["results"]
            first = next(row for row in results if row["testCase"]["description"] == "sum-1")
            for row in results:
                if row["testCase"]["description"] == "sum-2":
                    row["vars"] = first["vars"]
                if not has_descriptions:
                    del row["testCase"]["description"]

        results = read_changed(tmp_path, "promptfoo.json", change).results[0]
        counts = Counter(row.sample for row in results.rows)

        if has_descriptions:
            assert set(counts) == {f"sum-{k}" for k in range(1, 9)}
        else:
            assert (results.repeats, set(counts.values())) == (2, {2})
            assert '{"k":1} (2)' in counts

    def test_scores_of_a_failed_judge_are_lost_although_promptfoo_counts_0(self):
        written = json.loads(find("promptfoo-judged.json").read_text())["results"]["results"][2]
        row = find_row(read_arm("promptfoo-judged.json"), "sum-3")

        assert (written["success"], written["namedScores"]) == (False, {"exact": 1, "rubric": 0})
        assert row.scores == {"exact": 1.0}
        assert row.lost == dict.fromkeys(("pass", "score", "rubric"), "the judge went away")
        assert find_row(read_arm("promptfoo-judged.json"), "sum-2").scores == {
            "pass": True,
            "score": 1,
            "exact": 1,
            "rubric": 1,
        }

    def test_a_provider_error_loses_the_sample_and_a_failed_assertion_does_not(self):
        v2, v1 = read_arm("promptfoo.json"), read_arm("promptfoo.json", 1)

        assert find_row(v2, "sum-7").error == "Error: the model server went away"
        assert find_row(v1, "sum-1").scores == {"pass": False, "score": 0.125, "exact": 0.0, "brevity": 0.25}

    def test_json_and_json_lines_have_equal_rows(self):
        assert [results.rows for results in read(find("promptfoo.json")).results] == [
            results.rows for results in read(find("promptfoo.jsonl")).results
        ]


class TestLmEval:
    def test_samples_of_old_versions_without_a_list_of_metrics_are_read(self, tmp_path):
        """Version 0.4.2 wrote such samples."""
        document = {"doc_id": 0, "doc": {}, "target": "2", "arguments": [], "resps": [["2"]], "filtered_resps": ["2"]}
        path = tmp_path / "sums.jsonl"
        path.write_text(json.dumps({**document, "doc_hash": "x", "acc": 1.0, "f1": 0.5}) + "\n")

        assert read_arm(path).rows[0].scores == {"acc": 1.0, "f1": 0.5}

    def test_filters_are_metrics_of_one_sample(self):
        row = read_arm("lm-eval-v1/samples_sums_filtered*").rows[0]

        assert set(row.scores) == {"exact_match.strict", "exact_match.lenient"}

    def test_the_results_file_has_all_tasks_and_their_directions(self):
        imported = read(find("lm-eval-v2/results*"))

        assert [results.task for results in imported.results] == ["sums_choice", "sums_filtered", "sums_perplexity"]
        assert imported.results[0].facts["acc"].direction == "higher"
        assert "metric 'word_perplexity' of" in imported.notes[0]

    def test_means_equal_those_that_the_harness_printed(self):
        document = json.loads(find("lm-eval-v1/results*").read_text())["results"]["sums_choice"]

        assert means(read_arm("lm-eval-v1/samples_sums_choice*")) == {
            "acc": document["acc,none"],
            "acc_norm": document["acc_norm,none"],
        }

    def test_the_perplexity_of_a_sample_is_a_log_likelihood_where_higher_is_better(self, tmp_path):
        """LAMBADA logs it so: the aggregate is exp of minus the mean."""
        files = []
        for name, value in (("good", -0.3), ("poor", -2.8)):
            folder = tmp_path / name
            folder.mkdir()
            lines = [
                {"doc_id": k, "doc": {}, "target": "x", "arguments": [], "resps": [], "filtered_resps": [[value, True]],
                 "metrics": ["perplexity", "acc"], "perplexity": value - k / 100, "acc": 1}
                for k in range(20)
            ]  # fmt: skip
            (folder / "samples_lambada_2026-11-22T13-31-21.615558.jsonl").write_text("\n".join(map(json.dumps, lines)))
            document = {
                "model_name": name,
                "results": {},
                "higher_is_better": {"lambada": {"perplexity": False, "acc": True}},
            }
            (folder / "results_2026-11-22T13-31-21.615558.json").write_text(json.dumps(document))
            files.append(read(next(folder.glob("results*"))))
        run = ImportedRun.of(files, ImportOptions()).evaluate_unstored()

        comparisons = {comparison.contrast.metric: comparison for comparison in run.experiments[0].comparisons}
        assert comparisons["log_likelihood"].difference == pytest.approx(2.5)
        # A log-likelihood has no lower end: its replies are shown to differ, and a difference of its means is never proven.
        assert {verdict.subject.partition(":")[0]: verdict.state for verdict in run.verdicts} == {
            "acc": "met",
            "log_likelihood": "met",
        }
        assert "its samples have 'log_likelihood', where higher is better" in files[0].notes[0]

    def test_samples_alone_are_named_by_their_folder(self, tmp_path):
        path = find("lm-eval-v1/samples_sums_choice*")
        folder = tmp_path / "mistral"
        folder.mkdir()
        (folder / path.name).write_bytes(path.read_bytes())
        results = read(folder / path.name).results[0]

        assert (results.arm, results.task) == ("mistral", "sums_choice")


@pytest.mark.parametrize(
    "pattern", ["pytest-evals.json", "pytest-evals.csv", "pytest-harvest.json", "pytest-harvest.csv"]
)
class TestPytestBags:
    def test_recorded_values_are_scores(self, pattern):
        wrong, right = find_row(read_arm(pattern), "1"), find_row(read_arm(pattern), "2")

        assert wrong.scores == {"passed": True, "correct": False, "similarity": 0.25}
        assert right.scores == {"passed": True, "correct": True, "similarity": 1.0}
        assert wrong.reply.text == "a thousand"

    def test_a_test_that_failed_before_recording_is_lost(self, pattern):
        assert find_row(read_arm(pattern), "8").error == "the test failed before it recorded anything"


@pytest.mark.parametrize("name", ["mlflow.json", "wandb.json"])
def test_a_null_or_nan_in_the_table_of_a_tracker_is_lost(name):
    v2 = read_arm(name)

    assert find_row(v2, "What is 2 + 2?").scores == {"exact_match": 1.0}
    assert find_row(v2, "What is 8 + 8?").lost == {"exact_match": "the table has no value"}
