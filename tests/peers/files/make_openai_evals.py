"""Writes openai-evals-*.jsonl with the recorder of OpenAI's evals: OPENAI_API_KEY=none python make_openai_evals.py."""

from __future__ import annotations

import json
from pathlib import Path

from evals.base import RunSpec
from evals.record import LocalRecorder

HERE = Path(__file__).parent


def make() -> None:
    for name, wrong in (("v1", 4), ("v2", 1)):
        path = HERE / f"openai-evals-{name}.jsonl"
        path.unlink(missing_ok=True)
        spec = RunSpec(
            completion_fns=[name],
            eval_name="sums.dev.v0",
            base_eval="sums",
            split="dev",
            run_config={},
            created_by="",
        )
        recorder = LocalRecorder(str(path), run_spec=spec)
        for k in range(1, 9):
            with recorder.as_default_recorder(f"sums.dev.{k}"):
                if k == 8 and name == "v2":
                    recorder.record_error("the model server went away", RuntimeError("gone"))
                    continue
                answer = "a thousand" if k <= wrong else str(2 * k)
                recorder.record_sampling(f"What is {k} + {k}?", [answer])
                recorder.record_match(answer == str(2 * k), expected=str(2 * k), picked=answer, sampled=answer)
                recorder.record_metrics(similarity=1.0 if answer == str(2 * k) else 0.25)
        recorder.record_final_report({"accuracy": 1 - wrong / 8})
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    make()
