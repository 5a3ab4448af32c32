"""One node of four that answers worse is found by its name, and changes no verdict."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from clusters import python_path, skip_without_clusters, start_cluster

from pytest_crucible.cli import main

pytestmark = pytest.mark.slow
SAMPLES = 2400
MODEL = """
    import asyncio
    import zlib

    import ray
    from pytest_crucible import Reply

    class Model:
        simulated = False
        identity = "a model"

        async def generate(self, request):
            await asyncio.sleep(0.02)
            draw = zlib.crc32(f"{request.sample} {request.arm}".encode()) % 1000 / 1000
            is_worse = ray.util.get_node_ip_address() == "10.77.0.4"
            return Reply(text="yes" if draw < (0.5 if is_worse else 0.8) else "no")

    def pytest_crucible_backend(adapter):
        return Model() if adapter.backend == "model" else None
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="samples.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.60")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


def test_a_node_that_answers_worse_is_named_and_changes_no_verdict(suite, monkeypatch, capsys):
    skip_without_clusters()
    rows = [{"id": f"s{k}", "input": f"{k}?", "expected": "yes", "group": f"g{k % 300}"} for k in range(SAMPLES)]
    suite.write_rows("samples.jsonl", rows)
    suite.adapters({"v2": {"backend": "model"}})
    (suite.path / "conftest.py").write_text(textwrap.dedent(MODEL))
    suite.test(TEST)
    with start_cluster(4, environment=python_path(Path(__file__).parents[2])) as cluster:
        session = cluster.run(
            *(cluster.machines[0], "-p", "no:cacheprovider", "--crucible-adapter=v2"),
            *("--crucible-executor=auto?concurrency=8", "--crucible-store=run.db"),
            # Which node gets which samples is chance: at 5 %, one of twenty runs calls a good node different.
            "--crucible-alpha=0.0001",
            cwd=suite.path,
            timeout=500,
        )

    assert session.returncode == 0, session.stdout + session.stderr
    assert "10.77.0.4 scores differently: exact_match -0." in session.stdout
    assert "check its server" in session.stdout
    monkeypatch.chdir(suite.path)
    assert main(["nodes", "--store", "run.db"]) == 0
    assert capsys.readouterr().out.count("scores differently") == 1
    assert main(["nodes", "--store", "run.db", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out).values()
    assert len(document["nodes"]) == 4
    assert [each["node"] for each in document["differences"] if each["proven"]] == ["10.77.0.4"]
