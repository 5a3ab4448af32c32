"""The lineage of trained adapters in the plan of each run: recipes, files by their content, and what training started from."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.features.provenance.made_from import ArmLineage, arm_lineages
from pytest_crucible.records import Ancestor
from pytest_crucible.store.runs import RunStore

RECIPES = """
    from pathlib import Path

    def train_v1(trainer):
        trainer.step(trainer.datums("first.jsonl"), learning_rate=1e-2)

    def train_v2(trainer):
        trainer.start_from(Path("v1.txt").read_text())
        trainer.step(trainer.datums("second.jsonl"), learning_rate=1e-2)
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="words.jsonl", metrics=["exact_match"])
    async def test_words(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.fixture
def trained(suite, base: Path) -> Any:
    """The adapter v2, which was trained from v1; both in the folder of adapters."""
    suite.write_rows("words.jsonl", [{"id": f"w{k}", "input": f"{k}?", "expected": "five"} for k in range(3)])
    for name in ("first", "second"):
        suite.write_rows(f"{name}.jsonl", [{"prompt": name, "completion": "five"}])
    options = {"backend": "local", "base": str(base)}
    suite.adapters({name: {**options, "recipe": f"recipes:train_{name}"} for name in ("v1", "v2")})
    suite.test(TEST)
    suite.test(RECIPES, name="recipes")
    suite.run("--crucible-adapter=v1", "--crucible-train").assert_outcomes(passed=1)
    [folder] = (suite.path / ".crucible" / "adapters").glob("*-*")
    (suite.path / "v1.txt").write_text(str(folder))
    suite.run("--crucible-adapter=v2", "--crucible-train").assert_outcomes(passed=1)
    return suite


def lineage_of(suite: Any) -> ArmLineage:
    """Return the lineage of the candidate in the latest run."""
    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        [(_, plan, _)] = store.experiments(store.find_run())
    [lineage] = arm_lineages(plan.candidate)
    return lineage


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_run_names_the_recipes_files_and_weights_of_an_adapter_and_of_its_parent(trained):
    lineage = lineage_of(trained)

    v2, v1 = (part.training for part in lineage.chain)
    assert [(part.name, part.recipe) for part in (v2, v1)] == [("v2", "recipes:train_v2"), ("v1", "recipes:train_v1")]
    assert v1.files == {sha256(trained.path / "first.jsonl"): "first.jsonl"}
    assert sha256(trained.path / "second.jsonl") in (v2.files or {})
    assert sha256(trained.path / "first.jsonl") not in (v2.files or {})
    weights = {sha256(path) for path in (trained.path / ".crucible" / "adapters").glob("*/*.safetensors")}
    assert {v1.weights, v2.weights} <= weights
    assert v1.parent is None


def test_a_copy_of_an_adapter_has_its_lineage_and_weights_alone_are_their_hash(trained, base):
    newest = max((trained.path / ".crucible" / "adapters").glob("*-*"), key=lambda path: path.stat().st_mtime_ns)
    shutil.copytree(newest, trained.path / "copied")
    trained.adapters({"copy": {"backend": "local", "base": str(base), "checkpoint": "copied"}})
    trained.run("--crucible-adapter=copy").assert_outcomes(passed=1)
    with_lineage = lineage_of(trained)
    (trained.path / "copied" / "lineage.json").unlink()
    trained.run("--crucible-adapter=copy").assert_outcomes(passed=1)
    without = lineage_of(trained)

    assert [part.training.name for part in with_lineage.chain] == ["v2", "v1"]
    assert [part.training for part in without.chain] == [Ancestor(weights=with_lineage.training.weights)]
