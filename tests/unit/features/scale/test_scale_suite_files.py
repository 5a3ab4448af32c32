"""The files and keys of a suite that go to the nodes of a cluster."""

from __future__ import annotations

from pytest_crucible.features.scale.suite_files import _USUAL, key_variables, suite_environment
from pytest_crucible.records import Adapter

ADAPTERS = """
[adapters.v2]
backend = "openai"
base_url = "http://gpu-1/v1?key=$GATEWAY_KEY"
api_key_env = "OUR_KEY"
headers = { x-team = "${TEAM_TOKEN}" }
"""


def test_the_variables_that_adapters_name_go_to_the_nodes(tmp_path, monkeypatch):
    (tmp_path / "crucible.toml").write_text(ADAPTERS)
    for name in ("GATEWAY_KEY", "OUR_KEY", "TEAM_TOKEN", "LINE_KEY", "OTHER_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    for name in _USUAL:
        monkeypatch.delenv(name, raising=False)

    on_command_line = Adapter(name="v3", backend="openai", options={"base_url": "http://gpu-2/v1?key=$LINE_KEY"})

    names = ("GATEWAY_KEY", "LINE_KEY", "OUR_KEY", "TEAM_TOKEN")
    assert key_variables(tmp_path, [on_command_line]) == {name: f"value of {name}" for name in names}


def test_large_files_stay_here(tmp_path):
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(101 * 2**20)
    (tmp_path / "test_claims.py").write_text("")

    environment = suite_environment(tmp_path)

    assert environment["working_dir"] == str(tmp_path)
    assert "weights.bin" in environment["excludes"]
    assert "test_claims.py" not in environment["excludes"]
