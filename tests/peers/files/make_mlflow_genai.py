"""Writes mlflow-genai-* with `mlflow.genai.evaluate`, a local store and a model that sends nothing: python make_mlflow_genai.py."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_GENAI_EVAL_MAX_WORKERS": "1"}

import mlflow
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer

HERE = Path(__file__).parent
FOLDER = Path(tempfile.mkdtemp())
WRONG = {"v1": 4, "v2": 1}


@scorer
def exact_match(outputs, expectations):
    return outputs == expectations["expected_response"]


@scorer
def brevity(inputs, outputs):
    if inputs["question"] == "What is 8 + 8?":
        raise RuntimeError("the judge went away")
    return 1 - min(1.0, len(outputs) / 10)


@scorer
def clear(outputs):
    return Feedback(value="no" if " " in outputs else "yes", rationale="by its length")


def ask(arm: str):
    def predict(question):
        k = int(re.findall(r"\d+", question)[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        return "a thousand" if k <= WRONG[arm] else str(2 * k)

    return predict


def short(trace: str) -> str:
    """Without stack traces and paths."""
    drop = {"stack_trace", "exception.stacktrace", "mlflow.artifactLocation", "mlflow.source.name", "mlflow.user"}

    def walk(value):
        if isinstance(value, dict):
            return {name: walk(item) for name, item in value.items() if name not in drop}
        return [walk(item) for item in value] if isinstance(value, list) else value

    return json.dumps(walk(json.loads(trace)))


def make() -> None:
    mlflow.set_tracking_uri(f"sqlite:///{FOLDER}/mlflow.db")
    mlflow.create_experiment("sums", artifact_location=str(FOLDER / "artifacts"))
    mlflow.set_experiment("sums")
    data = [
        {
            "inputs": {"question": f"What is {k} + {k}?"},
            "expectations": {"expected_response": str(2 * k)},
            "tags": {"topic": "sums"},
        }
        for k in range(1, 9)
    ]
    for arm in WRONG:
        with mlflow.start_run(run_name=arm):
            result = mlflow.genai.evaluate(data=data, predict_fn=ask(arm), scorers=[exact_match, brevity, clear])
        frame = result.result_df.assign(trace=result.result_df["trace"].map(short))
        small = frame.drop(columns=["assessments", "spans", "tags", "trace_metadata"])
        small.to_parquet(HERE / f"mlflow-genai-{arm}.parquet")
        if arm == "v2":
            small.to_json(HERE / f"mlflow-genai-{arm}.json", orient="records", indent=1)
            small.to_csv(HERE / f"mlflow-genai-{arm}.csv", index=False)


if __name__ == "__main__":
    make()
