"""Settings, prompts and ends of replies are read from files of other harnesses; samples with other inputs are left out."""

from __future__ import annotations

import json
import shutil

import pytest
from imported_files import FILES, find, find_row, read_arm, read_changed

from pytest_crucible.features.run_checks.section import measured_checks
from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import LEFT_OUT
from pytest_crucible.runs.imported import ImportedRun, ImportOptions


def evaluate(*patterns, **options):
    return ImportedRun.of([read(find(pattern)) for pattern in patterns], ImportOptions(**options)).evaluate_unstored()


def estimates(run) -> dict[tuple[str, str], float]:
    (experiment,) = run.experiments
    return {(estimate.metric, estimate.arm): estimate.value for estimate in experiment.estimates}


BEST = ("inspect-best-v2.eval", "inspect-best-v1.eval")
MESSAGES = [
    {"role": "system", "content": "Answer with a number."},
    {"role": "user", "content": "What is 1 + 1?"},
]


class TestReducers:
    """V2 is right in one epoch of four on each sample, so that its best epoch is right; v1 in all four on four of ten samples."""

    def test_the_declared_reducer_is_the_score(self):
        run = evaluate(*BEST)

        # By the mean over epochs it would be 0.25 against 0.40, a regression.
        assert estimates(run) == {("match.max", "mockllm/v2"): 1.0, ("match.max", "mockllm/v1"): 0.4}
        assert [verdict.state for verdict in run.verdicts] == ["met"]

    def test_the_score_is_that_which_inspect_computed(self, tmp_path):
        """Each reducer gives the log's own figure: it is read, since its name does not show its arguments."""
        shutil.copy(find("inspect-best-v1.eval"), tmp_path / "best.eval")
        row = find_row(read_arm(tmp_path / "best.eval"), "sum-4")

        assert (row.scores, row.repeat) == ({"match.max": 1.0}, 0)
        assert read_arm(tmp_path / "best.eval").facts["match.max"].high == 1.0

    def test_scores_of_a_log_without_samples_are_read(self):
        results = read_arm("inspect-unlogged.eval")

        assert {row.sample for row in results.rows} == {f"sum-{k}" for k in range(1, 11)}
        assert {tuple(row.scores.items()) for row in results.rows} == {(("match.max", 1.0),)}

    def test_other_reducers_are_other_metrics(self, tmp_path):
        plain = read_changed(tmp_path, "inspect-v1.json", lambda log: log["eval"].update(task="best"))
        run = ImportedRun.of([read(find("inspect-best-v2.eval")), plain], ImportOptions())

        with pytest.raises(SpecError, match=r"the arms share no metric with numbers: 'mockllm/v2' has match\.max, "):
            run.check_compared()

    def test_the_mean_and_another_reducer_are_two_scores(self, tmp_path):
        def change(log):
            log["eval"]["config"]["epochs_reducer"] = ["mean", "at_least_2"]
            log["reductions"] = [
                {"scorer": "match", "reducer": reducer,
                 "samples": [{"sample_id": f"sum-{k}", "value": value} for k in range(1, 13)]}
                for reducer, value in (("mean", 0.5), ("at_least_2", 1))
            ]  # fmt: skip

        results = read_changed(tmp_path, "inspect-v1.json", change).results[0]

        assert find_row(results, "sum-1").scores == {"match": 0.5, "match.at_least_2": 1.0}
        assert {name: facts.high for name, facts in results.facts.items()} == {"match": 1.0, "match.at_least_2": 1.0}

    def test_a_sample_with_a_lost_epoch_is_lost(self, tmp_path):
        """Inspect takes the best of the others; the lost one might have been better."""

        def change(log):
            log["eval"]["config"]["epochs_reducer"] = ["max"]
            log["reductions"] = [
                {"scorer": "match", "reducer": "max", "samples": [{"sample_id": f"sum-{k}", "value": "I"} for k in range(1, 13)]}
            ]  # fmt: skip
            log["samples"][0] |= {"scores": {}, "error": {"message": "the server went away"}}

        row = find_row(read_changed(tmp_path, "inspect-v1.json", change).results[0], "sum-1")

        assert (row.scores, row.lost) == ({}, {"match.max": "an epoch is lost: the server went away"})

    def test_means_of_epochs_are_the_scores_of_samples_that_have_none_themselves(self, tmp_path):
        def change(log):
            for sample in log["samples"]:
                sample["scores"] = None

        results = read_changed(tmp_path, "inspect-v1.json", change).results[0]
        scored = read_arm("inspect-v1.json")

        assert results.repeats == 1
        assert len(results.rows) == len({row.sample for row in scored.rows})
        assert find_row(results, "sum-1").scores.keys() == find_row(scored, "sum-1").scores.keys()

    def test_a_reply_that_a_solver_wrote_itself_is_no_part_of_the_prompt(self, tmp_path):
        def change(log):
            for sample in log["samples"]:
                for message in sample["messages"]:
                    message.pop("source", None)

        results = read_changed(tmp_path, "inspect-v1.json", change).results[0]

        assert {message["role"] for row in results.rows for message in row.prompt} == {"user"}

    def test_a_reducer_without_reduced_scores_is_refused_by_its_name(self, tmp_path):
        def change(log):
            log["eval"]["config"]["epochs_reducer"] = ["pass_at_2"]
            del log["reductions"]

        with pytest.raises(
            SpecError, match="declares the reducer pass_at_2 of its epochs and has no scores that are reduced"
        ):
            read_changed(tmp_path, "inspect-v1.json", change)


class TestWhatWasSent:
    def test_inspect_has_messages_settings_of_the_call_and_the_end_of_a_reply(self):
        results = read_arm("inspect-best-v2.eval")
        row, cut = find_row(results, "sum-1"), find_row(results, "sum-3")

        assert row.prompt == MESSAGES
        # The temperature is that of the solver, which the head of the log does not have.
        assert row.parameters == {"max_tokens": 64, "temperature": 0.5, "reasoning_effort": "low"}
        assert (row.reply.finish, cut.reply.finish) == ("stop", "length")
        assert results.weights == {"model": "mockllm/v2"}

    def test_inspect_has_every_request_of_a_conversation(self):
        row = find_row(read_arm("inspect-conversation.eval"), "sum-2")

        assert [call.parameters["temperature"] for call in row.calls] == [0.0, 1.0]
        assert [(call.reply.text, call.reply.finish, call.reply.model) for call in row.calls] == [
            ("4", "length", "v2-0613"),
            ("2", "stop", "v2-1106"),
        ]
        # What follows a draft that was cut is spoiled by it.
        assert (row.reply.text, row.reply.finish) == ("2", "length")

    def test_later_requests_are_checked_as_the_first(self):
        (analysis,) = evaluate("inspect-conversation.eval").experiments
        table = analysis.sections["run_checks"].view.tables[0]

        assert [row.cells for row in table.rows] == [
            ("sent", "max_tokens 4, temperature 0.0 and 1.0", ""),
            ("answered by", "v2-0613 (3), v2-1106 (3)", ""),
            ("answered by", "v2-0613 (3 replies), v2-1106 (3 replies)", "model changed"),
            ("prompts", "3 different", ""),
            ("ends", "1 cut", ""),
        ]

    def test_requests_to_another_model_or_to_a_grader_are_no_calls_of_the_arm(self, tmp_path):
        """A tool may have a model of its own."""

        def change(log):
            settings = {"temperature": 0.0}
            events = [("mockllm/v1", None), ("other/tool", None), ("mockllm/v1", "grader"), ("mockllm/v1", None)]
            log["samples"][0]["events"] = [
                {"event": "model", "model": model, "role": role, "config": settings, "output": {}}
                for model, role in events
            ]

        results = read_changed(tmp_path, "inspect-v1.json", change).results[0]

        assert len(results.rows[0].calls) == 2

    def test_lm_eval_has_prompts_settings_and_the_number_of_examples(self):
        row = read_arm("lm-eval-few/samples*").rows[0]

        assert row.prompt.endswith("What is 1 + 1?")
        assert row.prompt.count("What is") == 4
        settings = {"num_fewshot": 3, "until": ["\n"], "max_gen_toks": 8, "temperature": 0.5, "do_sample": True}
        assert row.parameters == settings

    def test_an_adapter_of_lm_eval_is_a_checkpoint_of_its_own(self, tmp_path):
        shutil.copytree(FILES / "lm-eval-few", tmp_path / "few")
        (path,) = (tmp_path / "few").glob("results*")
        document = json.loads(path.read_text())
        document["config"]["model_args"] = "pretrained=base,peft=adapters/v2,dtype=float16"
        path.write_text(json.dumps(document))

        assert read_arm(path).weights == {"model": "few", "checkpoint": "peft=adapters/v2"}

    def test_promptfoo_has_messages_settings_and_ends(self):
        v2, v1 = read(find("promptfoo-cached.json")).results
        row = find_row(v2, '{"k":2}')

        assert [message["role"] for message in row.prompt] == ["system", "user"]
        assert row.parameters == {"temperature": 0, "max_tokens": 8}
        assert v1.rows[0].parameters["temperature"] == 0.7
        assert (row.reply.finish, v2.weights) == ("length", {"model": "caching:v2"})

    def test_helm_has_prompts_settings_and_the_number_of_examples(self):
        row = read_arm("helm-v2/per_instance_stats.json").rows[0]

        assert row.prompt.startswith("Answer the following questions with a single letter only.")
        assert {"temperature": 0.0, "max_tokens": 5, "num_fewshot": 5}.items() <= row.parameters.items()

    def test_deepeval_has_its_hyperparameters(self, tmp_path):
        def change(document):
            document["hyperparameters"] = {"model": "v2-lora", "temperature": "0.2"}

        results = read_changed(tmp_path, "deepeval-v2.json", change).results[0]

        assert (results.weights, results.rows[0].parameters) == ({"model": "v2-lora"}, {"temperature": "0.2"})

    def test_mlflow_has_the_first_request_to_a_model(self, tmp_path):
        sent = {"model": "m", "messages": MESSAGES, "temperature": 0, "api_key": "k"}
        received = {"model": "m-0613", "choices": [{"finish_reason": "length"}]}

        def change(document):
            for record in document:
                trace = json.loads(record["trace"]) if isinstance(record["trace"], str) else record["trace"]
                attributes = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps(sent)}
                attributes["mlflow.spanOutputs"] = json.dumps(received)
                trace["data"]["spans"].append({"parent_span_id": "x", "attributes": attributes})
                record["trace"] = trace

        row = read_changed(tmp_path, "mlflow-genai-v2.json", change).results[0].rows[0]

        assert (row.prompt, row.parameters) == (MESSAGES, {"temperature": 0})
        assert (row.reply.finish, row.reply.model) == ("length", "m-0613")
        assert not row.calls

    def test_mlflow_has_the_later_requests_too(self, tmp_path):
        def change(document):
            for record in document:
                trace = json.loads(record["trace"]) if isinstance(record["trace"], str) else record["trace"]
                for heat, why in ((0, "stop"), (1, "length")):
                    sent = {"messages": MESSAGES, "temperature": heat}
                    received = {"model": "m", "choices": [{"finish_reason": why, "message": {"content": f"{heat}"}}]}
                    attributes = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps(sent)}
                    attributes["mlflow.spanOutputs"] = json.dumps(received)
                    trace["data"]["spans"].append({"parent_span_id": "x", "attributes": attributes})
                record["trace"] = trace

        row = read_changed(tmp_path, "mlflow-genai-v2.json", change).results[0].rows[0]

        assert [(call.parameters, call.reply.text) for call in row.calls] == [
            ({"temperature": 0}, "0"),
            ({"temperature": 1}, "1"),
        ]
        assert row.reply.finish == "length"

    def test_settings_that_differ_are_shown_before_the_verdicts(self):
        (analysis,) = evaluate(*BEST).experiments
        view = analysis.sections["run_checks"].view

        assert view.tables[0].verbosity == 0
        assert view.notes[0].text == (
            "the arms were sent different reasoning_effort (reasoning_effort: mockllm/v2 low, mockllm/v1 high): a difference of "
            "the arms may come from that; if it is what you compare, add --arms-differ-in=reasoning_effort"
        )

    @pytest.mark.parametrize("declared", ["reasoning_effort", "*"])
    def test_a_declared_difference_of_settings_is_no_problem(self, declared):
        (analysis,) = evaluate(*BEST, arms_differ_in=(declared,)).experiments
        view = analysis.sections["run_checks"].view

        assert view.tables[0].verbosity == 1
        assert view.tables[0].rows[0].cells[-1] == "differs: reasoning_effort (declared)"
        (check,) = measured_checks(analysis)
        assert check.matches
        assert "reasoning_effort high (mockllm/v1), differs: reasoning_effort (declared)" in check.detail

    def test_another_declared_difference_changes_nothing(self):
        (analysis,) = evaluate(*BEST, arms_differ_in=("temperature",)).experiments

        assert "different reasoning_effort" in analysis.sections["run_checks"].view.notes[0].text


def table(folder, rows: list[dict], name: str = "rows.csv", **options):
    """Return the analysis of a CSV table with these rows."""
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")
    imported = ImportedRun.of([read(folder / name, columns=options.pop("columns", None))], ImportOptions(**options))
    (analysis,) = imported.evaluate_unstored().experiments
    return analysis


def rows_of(v2: dict, v1: dict, samples: int = 6) -> list[dict]:
    return [
        {"id": f"q{k}", "arm": arm, "ok": k % 2, **{name: str(value).format(k=k) for name, value in more.items()}}
        for arm, more in (("v2", v2), ("v1", v1))
        for k in range(samples)
    ]


class TestTables:
    def check_lines(self, analysis) -> list[tuple[str, ...]]:
        return [row.cells for row in analysis.sections["run_checks"].view.tables[0].rows]

    def test_settings_prompts_and_ends_of_a_table_are_checked(self, tmp_path):
        columns = {"prompt": "What is {k}?", "reply": "It is {k}", "max_tokens": 8}
        v2, v1 = {"temperature": 0, "finish_reason": "stop"}, {"temperature": 0.7, "finish_reason": "length"}
        analysis = table(tmp_path, rows_of({**columns, **v2}, {**columns, **v1}), columns={"input": "id"})

        assert self.check_lines(analysis) == [
            ("sent", "max_tokens 8, temperature 0", "max_tokens 8, temperature 0.7", "differs: temperature"),
            ("equal replies", "", "6 of 6 samples", ""),
            ("prompts", "the same 6", "the same 6", ""),
            ("ends", "0", "6 cut", ""),
        ]
        assert "add --arms-differ-in=temperature" in analysis.sections["run_checks"].view.notes[0].text
        # A setting is not a score.
        assert [comparison.contrast.metric for comparison in analysis.comparisons] == ["ok"]

    def test_settings_without_prompts_are_those_of_the_arm(self, tmp_path):
        analysis = table(tmp_path, rows_of({"reasoning_effort": "low"}, {"reasoning_effort": "high"}))

        assert self.check_lines(analysis) == [
            ("sent", "reasoning_effort low", "reasoning_effort high", "differs: reasoning_effort")
        ]

    def test_any_column_may_be_a_setting_and_a_setting_may_be_a_metric(self, tmp_path):
        rows = rows_of({"budget": 5, "temperature": 1}, {"budget": 9, "temperature": 2})
        analysis = table(tmp_path, rows, columns={"settings": "budget", "metrics": "ok,temperature"})

        assert self.check_lines(analysis) == [("sent", "budget 5", "budget 9", "differs: budget")]
        assert {comparison.contrast.metric for comparison in analysis.comparisons} == {"ok", "temperature"}

    def test_one_number_in_two_files_is_one_setting(self, tmp_path):
        """A CSV file has texts, whose numbers are floats."""
        (tmp_path / "v1.jsonl").write_text(
            "".join(json.dumps({"id": f"q{k}", "arm": "v1", "ok": 1, "temperature": 0}) + "\n" for k in range(6))
        )
        rows_of_v2 = [row for row in rows_of({"temperature": 0}, {}) if row["arm"] == "v2"]
        (tmp_path / "v2.csv").write_text(
            "\n".join(["id,arm,ok,temperature", *(",".join(map(str, row.values())) for row in rows_of_v2)])
        )
        files = [read(tmp_path / name) for name in ("v2.csv", "v1.jsonl")]
        parameters = [row.parameters for file in files for results in file.results for row in results.rows]

        assert {json.dumps(each) for each in parameters} == {'{"temperature": 0}'}

    def test_arms_of_one_model_may_have_equal_replies(self, tmp_path):
        """Two prompts are compared with one model, which gives equal texts."""
        words = "one two three four five six seven eight nine ten number{k} is the {k} answer of {k} to q{k}x w{k} v{k} u{k}"
        of_text = {"reply": " ".join(f"{word}{{k}}" for word in words.split())}
        of_two_models = rows_of({**of_text, "model": "m2"}, {**of_text, "model": "m1"}, samples=300)
        of_one_model = rows_of({**of_text, "model": "m"}, {**of_text, "model": "m"}, samples=300)

        assert self.check_lines(table(tmp_path, of_two_models))[0][-1] == "one model"
        assert self.check_lines(table(tmp_path, of_one_model))[0][-1] == ""

    def test_the_model_that_answered_may_have_a_column(self, tmp_path):
        of_v2 = {"reply": "{k}", "prompt": "a{k}", "response_model": "base"}
        analysis = table(tmp_path, rows_of(of_v2, of_v2), columns={"input": "id"})

        assert ("answered by", "base", "base", "") in self.check_lines(analysis)


class TestOtherInputs:
    """The documents of both runs are equal, and the prompts have no example in one and three in the other."""

    def test_other_prompts_under_the_same_ids_are_refused_where_all_differ(self):
        with pytest.raises(
            SpecError,
            match=r"same input: that of all 8 differs \(first: 0\), num_fewshot is 0 and 3.*add --arms-differ-in=messages",
        ):
            evaluate("lm-eval-v1/samples_sums_filtered*", "lm-eval-few/samples*")

    def test_other_prompts_are_compared_where_they_are_the_declared_difference(self):
        (experiment,) = evaluate(
            "lm-eval-v1/samples_sums_filtered*", "lm-eval-few/samples*", arms_differ_in=("messages", "num_fewshot")
        ).experiments

        assert experiment.comparisons[0].pairs == 8
        assert not LEFT_OUT.of(experiment.plan)
        assert experiment.sections["run_checks"].view.tables[0].rows[0].cells[-1] == (
            "differs: num_fewshot (declared), temperature, do_sample"
        )

    def change_prompts(self, tmp_path, *, template: str = ""):
        """Copy the run with other prompts for three samples, which may have another chat template."""
        folder = tmp_path / "v3"
        shutil.copytree(FILES / "lm-eval-v2", folder)
        (results,), (samples,) = folder.glob("results*"), folder.glob("samples_sums_choice*")
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        for line in lines[:3] if not template else lines:
            line["prompt_hash"] = f"other {line['doc_id']}"
        samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
        results.write_text(
            json.dumps({**json.loads(results.read_text()), "model_name": "v3", "chat_template": template or None})
        )
        return evaluate("lm-eval-v1/results*", results)

    def test_they_are_left_out_and_listed_where_some_differ(self, tmp_path):
        experiment = self.change_prompts(tmp_path).experiments[0]

        assert experiment.comparisons[0].pairs == 5
        assert LEFT_OUT.of(experiment.plan) == {"other input": ("0", "1", "2")}

    def test_prompts_of_other_chat_templates_are_not_compared(self, tmp_path):
        """Each model has its own template, so that no two prompts would be equal."""
        assert self.change_prompts(tmp_path, template="{{ messages }}").experiments[0].comparisons[0].pairs == 8


class TestPromptfooClaims:
    def test_repeats_from_the_cache_are_no_repeats(self):
        file = read(find("promptfoo-cached.json"))

        assert [(results.repeats, len(results.rows)) for results in file.results] == [(1, 2), (1, 2)]
        assert file.notes[0] == "v2: 4 repeats left out: an earlier reply again, from promptfoo's cache"

    def test_pass_and_score_that_are_equal_are_one_claim(self):
        def compare_metrics(pattern):
            (experiment,) = evaluate(pattern).experiments
            return [comparison.contrast.metric for comparison in experiment.comparisons]

        assert compare_metrics("promptfoo-cached.json") == ["pass"]
        # With two assertions a test, the score is the share of those that hold.
        assert compare_metrics("promptfoo.json") == ["pass", "score", "exact", "brevity"]

    def test_the_number_of_repeats_in_the_file_counts(self, tmp_path):
        """Two tests of one prompt, each once, are two samples and not two repeats of one."""

        def change(document):
            document["runtimeOptions"]["repeat"] = 1
            for result in document["results"]["results"]:
                result["response"]["cached"] = False

        results = read_changed(tmp_path, "promptfoo-cached.json", change).results[0]

        assert (results.repeats, len({row.sample for row in results.rows})) == (1, 6)

    def test_a_metric_without_weight_has_the_score_of_its_assertions(self, tmp_path):
        """promptfoo writes 0 for it, whatever the assertion says."""

        def change(document):
            for result in document["results"]["results"]:
                grading = result["gradingResult"]
                grading["namedScoreWeights"], result["namedScores"] = {"zee": 0}, {"zee": 0}
                for component in grading["componentResults"]:
                    component["assertion"]["metric"] = "zee"

        results = read_changed(tmp_path, "promptfoo-cached.json", change).results

        assert [find_row(arm, '{"k":1}').scores["zee"] for arm in results] == [1.0, 0.0]
