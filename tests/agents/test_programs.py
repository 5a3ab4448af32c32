"""Coding agents, unmodified programs that are not Python's, work in the workspace on the arm's replies.

Skipped where one is not installed: `npm install -g @openai/codex@0.171.0 @anthropic-ai/claude-code@2.1.197`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.conftest import ROOT

pytestmark = pytest.mark.slow

CODEX = """
model_provider = "arm"
[model_providers.arm]
name = "arm"
base_url = "{url}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
COMMANDS = {
    "codex": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Write out.txt"],
    "claude": ["claude", "-p", "Write out.txt", "--allowedTools", "Write"],
}
SUITE = """
import pytest
from pytest_crucible import agents

@pytest.mark.crucible([{{"id": "a", "input": "Write out.txt"}}], metrics=[agents.file_equals("out.txt", "sunny", name="written")])
@pytest.mark.environment()
async def test_program(sample, endpoint, workspace):
    home = workspace / "home"
    home.mkdir()
    (home / "config.toml").write_text({codex!r}.format(url=endpoint.base_url))
    folders = {{"HOME": str(home), "CODEX_HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}}
    done = await endpoint.run({command}, cwd=workspace, timeout_s=300, env=folders)
    assert done.exit_status == 0, done.output + done.errors
    return done.output.strip().splitlines()[-1]
"""
MODEL = """
import json
from pytest_crucible import Reply

CALLS = {
    "functions__exec": {"input": "text(await tools.exec_command({cmd: 'printf sunny > out.txt'}))"},
    "exec_command": {"cmd": "printf sunny > out.txt"},
    "Write": {"file_path": "out.txt", "content": "sunny"},
}

def answer(request):
    names = [tool["function"]["name"] for tool in request.parameters.get("tools", ())]
    known = [name for name in CALLS if name in names]
    if not known or any(message["role"] == "tool" for message in request.input):
        return Reply(text="It is written.")
    function = {"name": known[0], "arguments": json.dumps(CALLS[known[0]])}
    return Reply(text="", tool_calls=({"id": "call_1", "type": "function", "function": function},))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_coding_agent_writes_the_file_that_the_arm_tells_it_to(name: str, tmp_path: Path):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "test_program.py").write_text(SUITE.format(codex=CODEX, command=COMMANDS[name]))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "crucible.toml").write_text('[adapters.v2]\nbackend = "scripted"\nscript = "model:answer"\n')
    report = tmp_path / "report.json"
    options = ["-p", "no:cacheprovider", "--crucible-adapter=v2", f"--crucible-report={report}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    estimates = json.loads(report.read_text())["experiments"][0]["estimates"]
    assert [row["value"] for row in estimates if row["metric"] == "written"] == [1.0]
