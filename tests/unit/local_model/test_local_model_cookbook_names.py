"""Models and data sets of a tinker-cookbook that is installed in any version."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from pytest_crucible.local_model.server.cookbook_names import CookbookNames, read_cookbook_names
from pytest_crucible.records.errors import SpecError

MODELS = '''
def get_qwen_info():
    """The models."""
    org = "Qwen"
    return {"Qwen9-1B": ModelAttributes(org, "9"), "Qwen9-2B": ModelAttributes(org, "9")}

def get_thinkingmachines_info():
    org = "thinkingmachines"
    return {"Inkling": ModelAttributes(org, "1")}
'''
RECIPE = '''
"""Or ds = load_dataset("my/data") of your own."""
import tools_that_are_not_installed

_EXAM = "org/exam"
_PAGES = 3

def load():
    first = datasets.load_dataset("openai/gsm8k", "main")
    return load_dataset(
        "org/other.data-2", split="train"
    ), load_dataset(name), load_dataset(_EXAM, split="train"), load_dataset(_PAGES)
'''


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder of packages, with a small cookbook of version 9.1."""
    (tmp_path / "tinker_cookbook/recipes").mkdir(parents=True)
    (tmp_path / "tinker_cookbook/__init__.py").write_text("raise AssertionError('imported')")
    (tmp_path / "tinker_cookbook/recipes/loop.py").write_text(RECIPE)
    information = tmp_path / "tinker_cookbook-9.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tinker-cookbook\nVersion: 9.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path


def test_names_are_read_from_the_source_without_importing_it(site):
    (site / "tinker_cookbook/model_info.py").write_text(MODELS)
    assert read_cookbook_names() == CookbookNames(
        version="9.1",
        models=("Qwen/Qwen9-1B", "Qwen/Qwen9-2B"),
        data_sets=("openai/gsm8k", "org/exam", "org/other.data-2"),
    )


@pytest.mark.parametrize("source", [None, "MODELS = 1\n"])
def test_a_cookbook_without_the_table_of_models_is_refused(site, source):
    if source is not None:
        (site / "tinker_cookbook/model_info.py").write_text(source)
    with pytest.raises(SpecError, match=r"tinker-cookbook 9\.1 has no table of models that can be read"):
        read_cookbook_names()


def test_without_the_cookbook_its_installation_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match="pip install tinker-cookbook"):
        read_cookbook_names()
