"""Writes langsmith-* with LangSmith's `evaluate`, which uploads nothing and calls no model: python make_langsmith.py."""

from __future__ import annotations

import os
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path

os.environ |= {"LANGSMITH_API_KEY": "none", "LANGSMITH_TRACING": "false", "LANGSMITH_ENDPOINT": "http://127.0.0.1:9"}

from langsmith import Client, evaluate
from langsmith.schemas import Example

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


def exact_match(outputs: dict, reference_outputs: dict) -> bool:
    return outputs.get("answer") == reference_outputs["answer"]


def brevity(inputs: dict, outputs: dict) -> dict:
    """Fails on one sample, as a judge does whose server went away."""
    if inputs["question"] == "What is 8 + 8?":
        raise RuntimeError("the judge went away")
    return {"key": "brevity", "score": 1 - min(1.0, len(outputs["answer"]) / 10)}


def tone(outputs: dict) -> dict:
    return {"key": "tone", "value": "wordy" if " " in outputs["answer"] else "terse"}


def ask(arm: str):
    def target(inputs: dict) -> dict:
        k = int(re.findall(r"\d+", inputs["question"])[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        return {"answer": "a thousand" if k <= WRONG[arm] else str(2 * k)}

    return target


def make() -> None:
    dataset, now = uuid.uuid5(uuid.NAMESPACE_URL, "sums"), datetime(2026, 11, 23, tzinfo=UTC)
    examples = [
        Example(
            id=uuid.uuid5(dataset, str(k)),
            inputs={"question": f"What is {k} + {k}?"},
            outputs={"answer": str(2 * k)},
            metadata={"topic": "sums"},
            dataset_id=dataset,
            created_at=now,
            modified_at=now,
        )
        for k in range(1, 9)
    ]
    for arm in WRONG:
        client = Client(api_key="none", info={}, auto_batch_tracing=False)
        results = evaluate(
            ask(arm),
            data=examples,
            evaluators=[exact_match, brevity, tone],
            client=client,
            upload_results=False,
            num_repetitions=2,
            experiment_prefix=arm,
        )
        frame = results.to_pandas()
        # The traceback has paths of this machine.
        frame["error"] = frame["error"].str.partition("\n")[0]
        frame.to_csv(HERE / f"langsmith-{arm}.csv", index=False)
        if arm == "v2":
            frame.to_json(HERE / f"langsmith-{arm}.jsonl", orient="records", lines=True, default_handler=str)


if __name__ == "__main__":
    make()
