"""A suite with models that never say the same twice, note what they are asked, and need a key to be opened."""

from __future__ import annotations

import json
from typing import Any

KEY, HEADER = "sk-planted-in-the-environment", "planted-in-a-header"

CONFTEST = """
    import os
    import secrets

    import pytest_crucible as crucible

    class Model:
        simulated = False

        def __init__(self, name, key):
            self.identity = f"model {name}"
            self.name = name
            self.key = key

        async def generate(self, request):
            note("calls.txt", f"{self.name} {request.sample} {request.repeat}")
            if request.sample in os.environ.get("FAILS", "").split():
                raise crucible.BackendError(f"{self.name} is down")
            if request.sample == os.environ.get("REFUSES"):
                raise crucible.Refused("the key is bad")
            return crucible.Reply(text=f"{self.name} says {secrets.token_hex(8)}", latency_s=secrets.randbelow(1000) / 100)

    def note(file, line):
        with open(file, "a") as lines:
            lines.write(line + chr(10))

    def pytest_crucible_backend(adapter):
        if adapter.backend != "model":
            return None
        note("opened.txt", adapter.name)
        if "MODEL_KEY" not in os.environ:
            raise crucible.SpecError("there is no MODEL_KEY")
        return Model(adapter.options.get("model", adapter.name), os.environ["MODEL_KEY"])
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("value >= 0")
    @pytest.mark.ab_compare("value", margin=9)
    async def test_draws(sample, sampler, score):
        reply = await sampler.generate(sample.input, extra_headers={"X-Key": "planted-in-a-header"})
        score(value=int(reply.text.rpartition(" ")[2], 16) / 16**16, latency_s=reply.latency_s)
"""
V2 = "--crucible-adapter=v2"
BOTH = (V2, "--compare=v1")
AUTO, ONLY, OFF, REFRESH = (f"--crucible-cache={mode}" for mode in ("auto", "only", "off", "refresh"))


def count_new_calls(suite: Any) -> dict[str, int]:
    """Return the number of calls of each model since the last count."""
    names = [line.split()[0] for line in suite.calls()]
    suite.forget_calls()
    return {name: names.count(name) for name in sorted(set(names))}


def opened_checkpoints(suite: Any) -> list[str]:
    path = suite.path / "opened.txt"
    return path.read_text().splitlines() if path.exists() else []


def estimates(suite: Any) -> dict[tuple[str, str], Any]:
    """Return the estimates of the latest run, by arm and metric."""
    [experiment] = json.loads((suite.path / "run.json").read_text())["experiments"]
    return {(estimate["arm"], estimate["metric"]): estimate["value"] for estimate in experiment["estimates"]}
