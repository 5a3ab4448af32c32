"""Installed packages add commands and importers to the `crucible` program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PLUGIN = """
    import click
    from pytest_crucible.importers.results import ParsedFile, Results, Row

    @click.command("leaderboard", short_help="The best runs.")
    @click.option("--top", default=3, help="How many.")
    def leaderboard(top):
        click.echo(f"the best {top}")

    class AcmeReader:
        def recognises(self, source):
            return isinstance(source.document, dict) and source.document.get("made_by") == "acme"

        def read(self, source, columns):
            rows = [Row(sample=name, scores={"accuracy": value}) for name, value in source.document["scores"].items()]
            arm = source.document["model"]
            return ParsedFile(version="1.0", results=[Results(task="sums", arm=arm, rows=rows, facts={}, repeats=1)])

    def pytest_crucible_commands():
        return {"leaderboard": "acme_evals:leaderboard"}

    def pytest_crucible_importers():
        return {"acme": AcmeReader()}
"""
SCORES = {f"q{k}": float(k % 2) for k in range(20)}


@pytest.fixture
def install(tmp_path):
    """Put a package with one plugin where Python finds it."""

    def install(source: str, name: str = "acme_evals") -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[pytest_crucible]\n{name} = {name}\n")

    return install


@pytest.fixture
def acme(install):
    install(PLUGIN)


@pytest.fixture
def crucible(tmp_path):
    """The program in a process of its own: exit status, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_crucible", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def log(folder: Path, model: str) -> None:
    (folder / f"{model}.json").write_text(json.dumps({"made_by": "acme", "model": model, "scores": SCORES}))


@pytest.mark.slow
def test_a_command_of_a_plugin_is_listed_and_runs(acme, crucible):
    _, listed, _ = crucible("--help")
    lines = listed.splitlines()

    assert "  leaderboard  The best runs." in lines
    assert lines.index("  leaderboard  The best runs.") > next(
        k for k, line in enumerate(lines) if line.startswith("  tinker")
    )
    assert crucible("leaderboard", "--top", "5") == (0, "the best 5\n", "")
    assert crucible("leaderbord")[2] == "crucible: no command 'leaderbord': did you mean 'leaderboard'?\n"


@pytest.mark.slow
def test_a_format_of_a_plugin_is_recognised_and_imported(acme, crucible, tmp_path):
    log(tmp_path, "v2")

    status, out, err = crucible("import", "v2.json", "--target", "accuracy >= 0.4")

    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "v2.json: acme 1.0, v2 on sums (20 results)"
    (run,) = json.loads(crucible("runs", "--json")[1])
    assert (run["arms"], run["verdicts"]) == (["v2"], {"met": 1})


@pytest.mark.slow
def test_files_of_a_plugin_are_compared(acme, crucible, tmp_path):
    log(tmp_path, "v1")
    log(tmp_path, "v2")

    status, out, err = crucible("compare", "v2.json", "v1.json")

    assert (status, err) == (0, "")
    assert "accuracy: v2 vs v1" in out


@pytest.mark.slow
def test_the_harness_of_a_plugin_can_be_named(acme, crucible, tmp_path):
    log(tmp_path, "v2")

    assert crucible("import", "v2.json", "--as", "acme")[0] == 0
    assert "acme" in crucible("import", "--help")[1]


@pytest.mark.parametrize("name", ["leaderboard", "runs"], ids=["another plugin", "built in"])
def test_two_plugins_cannot_offer_one_name(acme, install, crucible, name):
    install(f"def pytest_crucible_commands():\n    return {{'{name}': 'other:command'}}\n", name="other")

    assert crucible("gc") == (4, "", f"crucible: command '{name}' is offered by two plugins: rename one\n")


def test_a_plugin_that_cannot_be_loaded_is_named(install, crucible):
    install("import a_package_that_is_missing\n", name="broken")

    status, out, err = crucible("runs")

    assert (status, out) == (4, "")
    assert err == (
        "crucible: plugin 'broken' (broken) cannot be loaded: ModuleNotFoundError: No module named "
        "'a_package_that_is_missing'; update or uninstall the package that it is from\n"
    )


def test_the_program_and_its_plugins_do_not_import_pytest(acme, tmp_path):
    code = (
        "import sys; from pytest_crucible.cli import main; main(['leaderboard']); main(['adapters']); "
        "print(*sorted({'pytest', '_pytest', 'sqlite3', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )

    assert done.stdout.splitlines()[0] == "the best 3"
    assert done.stderr.strip() == ""
