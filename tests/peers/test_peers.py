"""Files of other tools are read as `tools.toml` says: samples, lost ones, repeats, groups, metrics and their directions."""

from __future__ import annotations

import pytest
from peer_files import FILES, TOOLS, differences

from pytest_crucible.importers.formats import read_results
from pytest_crucible.importers.metric_facts import is_known

STORED = [(tool.name, name) for tool in TOOLS.values() for name in tool.files]


@pytest.mark.parametrize(("tool", "name"), STORED)
def test_a_file_is_read_as_it_is_right(tool, name):
    assert list(differences(FILES / name, TOOLS[tool].files[name])) == []


@pytest.mark.parametrize(("tool", "name"), STORED)
def test_each_direction_has_a_source(tool, name):
    """The file states it, as a fact of the metric, or the metric's name is known; else no direction is read."""
    metrics = TOOLS[tool].files[name].get("metrics", {})
    (file, *_) = read_results(FILES / name) if metrics else ((),)
    stated = file.results[0].facts if metrics else {}

    for metric, read in metrics.items():
        if not read.endswith("none"):
            assert metric in stated or is_known(metric), metric


def test_every_script_belongs_to_a_tool():
    scripts = {path.name for path in FILES.iterdir() if path.name.startswith("make_")}

    assert {tool.script for tool in TOOLS.values()} - {""} == scripts
