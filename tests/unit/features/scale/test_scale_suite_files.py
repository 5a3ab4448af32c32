"""The files and keys of a suite that go to the nodes of a cluster."""

from __future__ import annotations

from pytest_crucible.features.scale.suite_files import key_variables, suite_environment

ADAPTERS = """
[adapters.v2]
backend = "openai"
base_url = "http://gpu-1/v1?key=$GATEWAY_KEY"
api_key_env = "OUR_KEY"
headers = { x-team = "${TEAM_TOKEN}" }
"""


def test_the_variables_that_adapters_name_go_to_the_nodes(tmp_path, monkeypatch):
    (tmp_path / "crucible.toml").write_text(ADAPTERS)
    for name in ("GATEWAY_KEY", "OUR_KEY", "TEAM_TOKEN", "OTHER_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    for name in ("OPENAI_API_KEY", "TINKER_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    assert key_variables(tmp_path) == {name: f"value of {name}" for name in ("GATEWAY_KEY", "OUR_KEY", "TEAM_TOKEN")}


def test_large_files_stay_here(tmp_path):
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(101 * 2**20)
    (tmp_path / "test_claims.py").write_text("")

    environment = suite_environment(tmp_path)

    assert environment["working_dir"] == str(tmp_path)
    assert "weights.bin" in environment["excludes"]
    assert "test_claims.py" not in environment["excludes"]
