"""What `python -m benchmarks.cookbook` prints of the lines of a small cookbook."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import cookbook

README = """
```bash
python -m tinker_cookbook.recipes.right
python -m tinker_cookbook.recipes.right \\
    steps=3  # three
python -m tinker_cookbook.recipes.wrong model_path=tinker://<run-id>/weights/final
python -m tinker_cookbook.recipes.wrong
python -m tinker_cookbook.recipes.empty
python -m tinker_cookbook.recipes.large
python -m tinker_cookbook.recipes.endless
python -m tinker_cookbook.recipes.chat
python -m tinker_cookbook.capture.store.daemon DIR
```
"""
MODULES = {
    "__init__": "",
    "model_info": 'def get_info():\n    org = "Qwen"\n    return {"Qwen9-1B": 1}\n',
    "recipes/right": "import os, tinker_cookbook; assert os.environ['TINKER_BASE_URL']",
    "recipes/wrong": "raise ValueError('a wrong value; and more')",
    "recipes/empty": "print(\"Warning: metric 'nll' not found in results. Available: ['lr']\")",
    "recipes/large": "import package_that_is_not_here",
    "recipes/endless": (
        "import os, sys, time\n"
        "print(os.getpid(), file=open(os.environ.get('PID_FILE', os.devnull), 'w'), flush=True)\n"
        "time.sleep(0 if 'steps=1' in sys.argv else 60)\n"
    ),
    "recipes/chat": "assert input() == 'Hello'",
    "capture/store/daemon": (
        "import http.server, sys\n"
        "class Answers(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/healthz' else 404)\n"
        "        self.end_headers()\n"
        "assert sys.argv[1:3] == ['--data-dir', 'store']\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[4])), Answers).serve_forever()\n"
    ),
}
TABLE = r"""
tinker-cookbook 9.1

| README | line | | |
|---|---|---|---|
| `recipes` | `right` | passes |  |
| `recipes` | `right steps=3` | passes |  |
| `recipes` | `wrong model_path=tinker://<run-id>/weights/final` | fails | needs <run-id> |
| `recipes` | `wrong` | fails | ValueError: a wrong value |
| `recipes` | `empty` | fails | Warning: metric 'nll' not found in results |
| `recipes` | `large` | needs more than a toy | a package (ModuleNotFoundError: No module named 'package_that_is_not_here') |
| `recipes` | `endless` | no verdict | still runs after 3 s |
| `recipes` | `chat` | passes |  |
| `recipes` | `capture.store.daemon DIR` | passes with arguments | `--data-dir store --port {port}`; as written: needs DIR |

3 passes, 1 passes with arguments, 1 needs more than a toy, 3 fails, 1 no verdict
"""


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """The folder of an installed cookbook of version 9.1."""
    folder = tmp_path / "tinker_cookbook"
    for name, source in MODULES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(source)
    (folder / "recipes/README.md").write_text(README)
    information = tmp_path / "tinker_cookbook-9.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tinker-cookbook\nVersion: 9.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return folder


class PatientCheckout(cookbook.Checkout):
    """Waits long for each line but the one that never ends."""

    def _run(self, line, seconds):
        return super()._run(line, seconds if line.recipe == "endless" else 120.0)


def test_each_line_has_its_verdict(site, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(cookbook.NEEDS, "large", "a package")
    monkeypatch.setitem(cookbook.INPUT, "chat", "Hello\n")
    checkout = PatientCheckout(tmp_path / "home", 3.0)
    cookbook.show_table(list(cookbook.read_lines(site)), checkout)
    assert capsys.readouterr().out.strip() == TABLE.strip()


def test_a_line_that_still_runs_is_tried_with_arguments_that_make_it_short(site, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(cookbook.SHORTER, "endless", "steps=1")
    outcome = cookbook.Checkout(tmp_path / "home", 1.0).judge(cookbook.Line("recipes", "recipes.endless", ("steps=9",)))
    assert outcome == cookbook.Outcome("passes with arguments", "`steps=1`; as written: still runs after 1 s")


def test_a_recipe_ends_with_the_command(site, tmp_path):
    pytest.importorskip("pyarrow")
    pid_file = tmp_path / "pid"
    path = os.pathsep.join((str(site.parent), str(Path(cookbook.__file__).parents[1])))
    command = [sys.executable, "-m", "benchmarks.cookbook", "endless"]
    environment = {**os.environ, "PYTHONPATH": path, "PID_FILE": str(pid_file)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while not (pid_file.exists() and pid_file.read_text()):
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
