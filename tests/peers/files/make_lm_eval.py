"""Writes lm-eval-*/ with lm_eval and its dummy model, which guesses: python make_lm_eval.py. Nothing is asked."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

HERE = Path(__file__).parent
HEAD = """\
task: {task}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/sums.jsonl}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
metadata: {{version: 1.0}}
"""
CHOICE = """\
output_type: multiple_choice
doc_to_target: "{{label}}"
doc_to_choice: "{{choices}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
FILTERED = """\
output_type: generate_until
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: lenient, filter: [{function: lowercase}, {function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
PERPLEXITY = """\
output_type: loglikelihood_rolling
doc_to_target: "{{answer}}"
metric_list:
  - {metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}
"""
TASKS = {"sums_choice": CHOICE, "sums_filtered": FILTERED, "sums_perplexity": PERPLEXITY}


def tasks(folder: Path) -> TaskManager:
    rows = [
        {"question": f"What is {k} + {k}?", "answer": str(2 * k), "choices": [str(2 * k), str(2 * k + 1)], "label": 0}
        for k in range(1, 9)
    ]
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    for task, rest in TASKS.items():
        (folder / f"{task}.yaml").write_text(HEAD.format(task=task, folder=folder) + rest)
    return TaskManager(include_path=str(folder), include_defaults=False)


def make() -> None:
    with tempfile.TemporaryDirectory() as name:
        manager = tasks(Path(name))
        few = {"num_fewshot": 3, "gen_kwargs": {"temperature": 0.5, "do_sample": True}}
        for arm, seed, options in (("v1", 1, {}), ("v2", 2, {}), ("few", 1, few)):
            shutil.rmtree(HERE / f"lm-eval-{arm}", ignore_errors=True)
            results = simple_evaluate(
                model="dummy",
                tasks=["sums_filtered"] if options else list(TASKS),
                task_manager=manager,
                log_samples=True,
                random_seed=seed,
                bootstrap_iters=0,
                **options,
            )
            samples = results.pop("samples")
            tracker = EvaluationTracker(output_path=name)
            tracker.general_config_tracker.model_source = "dummy"
            tracker.general_config_tracker.model_name = tracker.general_config_tracker.model_name_sanitized = arm
            tracker.save_results_aggregated(results=results, samples=samples)
            for task, of_task in samples.items():
                tracker.save_results_samples(task_name=task, samples=of_task)
            shutil.copytree(Path(name) / arm, HERE / f"lm-eval-{arm}")
            (path,) = (HERE / f"lm-eval-{arm}").glob("results_*.json")
            document = {**json.loads(path.read_text()), "pretty_env_info": "", "tokenizer_path": ""}
            path.write_text(json.dumps(document, indent=1).replace(name, ".") + "\n")


if __name__ == "__main__":
    make()
