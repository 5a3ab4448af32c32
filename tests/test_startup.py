"""Modules that a pytest run without an experiment must not import."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_crucible import signs
from pytest_crucible.features import NAMES, all_features
from pytest_crucible.options import OPTIONS
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.session.markers import MARKERS

HEAVY = (
    "asyncio",
    "concurrent.futures",
    "httptools",
    "jsonschema",
    "numpy",
    "pandas",
    "safetensors",
    "scipy",
    "sqlite3",
    "starlette",
    "uvicorn",
)
ROOT = Path(__file__).parent.parent
FRONT_DOOR = {
    "pytest_crucible",
    "pytest_crucible.fixtures",
    "pytest_crucible.plugin",
    "pytest_crucible.signs",
}
WATCHER = """
import sys

def pytest_unconfigure():
    print("modules:", *sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """All that was imported when a run of one ordinary test, with our plugin and no other, was over."""
    path = tmp_path_factory.mktemp("bystander")
    (path / "watcher.py").write_text(WATCHER)
    (path / "test_bystander.py").write_text("def test_bystander():\n    pass\n")
    return imported_modules(path, "-p", "pytest_crucible.plugin", "test_bystander.py")


def imported_modules(path: Path, *arguments: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "watcher", "-p", "no:cacheprovider", *arguments],
        cwd=path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("modules: "))
    return set(line.split()[1:])


def test_the_words_of_every_session_are_those_of_the_tables():
    options = [*OPTIONS, *(option for feature in all_features() for option in feature.options)]
    fixtures = {name: row.name for row in all_features() for name in (*row.fixtures, *row.test_fixtures)}
    markers = [*MARKERS, *(line for feature in all_features() for line in feature.markers)]

    assert sorted(option.name for option in options if option.command_line) == signs.FLAGS
    assert sorted(option.name for option in options if option.key is not None) == signs.KEYS
    assert fixtures == signs.FEATURE_FIXTURES
    assert [re.split("[(:]", line)[0] for line in markers] == signs.MARKERS


@pytest.mark.parametrize("name", HEAVY)
def test_an_ordinary_session_does_not_import(modules, name):
    assert name not in modules


def test_an_ordinary_session_imports_the_entry_modules_alone(modules):
    assert {name for name in modules if name.split(".")[0] == "pytest_crucible"} == FRONT_DOOR


def test_importing_the_package_imports_no_other_module_of_it():
    code = "import sys, pytest_crucible; print(*(name for name in sys.modules if name.startswith('pytest_crucible')))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output.split() == ["pytest_crucible"]


SUITE = """
import pytest

@pytest.mark.crucible(dataset=[{"id": "a", "input": "1"}, {"id": "b", "input": "2"}])
@pytest.mark.quality_target("right >= 0.5")
def test_small(sample, sampler, score):
    score(right=True)
"""
SHOW = """
import sys
from pytest_crucible.cli import main

status = main(["show", "-vv", "--store", sys.argv[1]])
print("status:", status)
print("modules:", *sorted(sys.modules))
"""


def test_a_session_of_one_sample_imports_only_what_it_needs(tmp_path):
    (tmp_path / "watcher.py").write_text(WATCHER)
    (tmp_path / "test_small.py").write_text(SUITE)
    (tmp_path / "scripts.py").write_text("def answer(request):\n    return request.input\n")
    (tmp_path / "crucible.toml").write_text('[adapters.v1]\nbackend = "scripted"\nscript = "scripts:answer"\n')

    modules = imported_modules(tmp_path, "-p", "pytest_crucible.plugin", "test_small.py", "--crucible-adapter=v1")

    assert "sqlite3" in modules
    assert not modules & {"scipy.optimize", "scipy.stats", "http.client", "tarfile", "pytest_crucible.sandbox"}
    assert not modules & {"pytest_crucible.metrics.choice", "pytest_crucible.metrics.code_execution"}
    # Without a guard nothing of guards is loaded.
    folders = ("pytest_crucible.features.guards.", "pytest_crucible.detectors", "pytest_crucible.stats.classifiers")
    # But the rows of its tables, its hooks, and the section, which are for every session.
    in_each = {f"pytest_crucible.features.guards.{name}" for name in ("plugin", "project_guards", "section")}
    assert not [name for name in modules - in_each if name.startswith(folders)]


SUITE_OF_ONE_METRIC = """
import pytest

SAMPLES = [{"id": str(number), "input": str(number), "expected": str(number)} for number in range(20)]

@pytest.mark.crucible(dataset=SAMPLES, metrics="exact_match")
@pytest.mark.quality_target("exact_match >= 0.5")
async def test_small(sample, sampler):
    return await sampler.generate(sample.input)
"""
# Prints the modules that were imported when the first request was answered: at once, and after the wait for a module.
ANSWERS = """
import sys
import time

FIRST = []

def answer(request):
    FIRST[:] = FIRST or sorted(sys.modules)
    return request.input

def answer_late(request):
    end = time.monotonic() + 30
    # The last of them.
    while "pytest_crucible.sections.worst_samples" not in sys.modules and time.monotonic() < end:
        time.sleep(0.05)
    return answer(request)

def pytest_unconfigure():
    print("modules:", *FIRST)
"""
# What only verdicts and reports need.
ANALYSIS = (
    "analyse",
    "gate",
    "measures.means",
    "report.terminal",
    "runs.evaluate",
    "sections.inputs",
    "session.finish",
)
# Modules that a feature has in each session, beside its hooks: rows of tables, and what it checks or records of every run.
IN_EACH = {
    "factors": {"declarations", "prompts"},
    "guards": {"project_guards"},
    "provenance": {"canonical_rows", "run_rows", "seals", "tables"},
    "registry": {"suite", "suite_record", "tables"},
    "robustness": {"terms"},
    "scale": {"tables", "vllm_kind"},
    "slices": {"statistics"},
    "training": {"known_numbers", "tables"},
    "agents": {"statistics", "tables"},
}
# Of ours, of 840: each takes about half a millisecond.
MOST_MODULES = 308


def modules_of_one_metric(path: Path, answers: str, watcher: str) -> set[str]:
    """All that a session of one metric, with our plugin and no other, has imported when the watcher looks."""
    (path / "watcher.py").write_text(watcher)
    (path / "scripts.py").write_text(ANSWERS)
    (path / "test_small.py").write_text(SUITE_OF_ONE_METRIC)
    (path / "crucible.toml").write_text(f'[adapters.v1]\nbackend = "scripted"\nscript = "scripts:{answers}"\n')
    return imported_modules(path, "-p", "pytest_crucible.plugin", "test_small.py", "--crucible-adapter=v1")


@pytest.fixture(scope="module")
def at_end(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return modules_of_one_metric(tmp_path_factory.mktemp("small"), "answer", WATCHER)


def test_a_session_of_one_metric_imports_no_library_that_its_verdict_does_not_need(at_end):
    libraries = {name.partition(".")[0] for name in at_end}

    assert "numpy" in libraries
    assert not libraries & {"httptools", "jsonschema", "pandas", "safetensors", "scipy", "sqlalchemy", "tarfile"}
    assert not at_end & {"http.client", "numpy.f2py", "numpy.random", "numpy.testing", "statistics"}


def test_a_session_of_one_metric_imports_only_modules_that_it_uses(at_end):
    own = {name.removeprefix("pytest_crucible.") for name in at_end if name.startswith("pytest_crucible.")}
    unused = (
        "backends.openai",
        "backends.tinker",
        "commands",
        "detectors",
        "exports",
        "importers",
        "local_model",
        "sandbox",
    )

    assert len(own) <= MOST_MODULES
    assert not [name for name in own if name.startswith(unused)]
    assert not own & {
        f"metrics.{name}" for name in ("choice", "code_execution", "ngram_overlap", "normalisers", "numbers")
    }


@pytest.mark.parametrize("name", [name for name in NAMES if name != "run_checks"])
def test_a_feature_that_is_not_used_is_not_imported(at_end, name):
    prefix = f"pytest_crucible.features.{name}."
    loaded = {module.removeprefix(prefix) for module in at_end if module.startswith(prefix)}

    assert loaded == {"plugin", *IN_EACH.get(name, ())}


def test_nothing_of_the_analysis_is_imported_before_the_first_request(tmp_path):
    modules = modules_of_one_metric(tmp_path, "answer", "from scripts import pytest_unconfigure")

    assert "pytest_crucible.sample.engine" in modules
    assert not {"numpy", "scipy"} & modules
    early = tuple(f"pytest_crucible.{name}" for name in ANALYSIS)
    assert not [name for name in modules if name.startswith(early)]


def test_the_analysis_is_imported_while_the_first_request_is_in_flight(tmp_path):
    modules = modules_of_one_metric(tmp_path, "answer_late", "from scripts import pytest_unconfigure")

    assert {"numpy", "pytest_crucible.runs.evaluate"} <= modules


@pytest.mark.slow
def test_crucible_show_opens_a_stored_run_without_pytest(tmp_path):
    (tmp_path / "test_small.py").write_text(SUITE)
    (tmp_path / "scripts.py").write_text("def answer(request):\n    return request.input\n")
    (tmp_path / "crucible.toml").write_text('[adapters.v1]\nbackend = "scripted"\nscript = "scripts:answer"\n')
    store = tmp_path / "store.db"
    session = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--crucible-adapter=v1"]
    subprocess.run([*session, f"--crucible-store={store}"], cwd=tmp_path, capture_output=True, check=False)

    show = [sys.executable, "-c", SHOW, str(store)]
    output = subprocess.run(show, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    modules = output.rpartition("modules:")[2].split()

    assert "right >= 0.5" in output
    assert "status: 0" in output
    assert not {"pytest", "_pytest", "xdist"} & {name.split(".")[0] for name in modules}


def test_the_help_of_the_program_imports_nothing_of_the_dashboard_but_its_summary():
    code = "import sys; from pytest_crucible.cli import main; main(['--help']); print('modules:', *sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = run.stdout.rpartition("modules:")[2].split()

    assert "view" in run.stdout
    assert {name for name in modules if name.startswith("pytest_crucible.features.view.")} == {
        "pytest_crucible.features.view.plugin"
    }
    assert not {"starlette", "uvicorn", "jinja2"} & set(modules)


@pytest.mark.parametrize(("arguments", "seldom"), [("", True), ("['--help']", False)])
def test_only_a_process_of_the_program_collects_garbage_seldom(arguments, seldom):
    code = f"import gc, sys; from pytest_crucible.cli import SELDOM, main; main({arguments})"
    code += "; print(gc.get_threshold()[0] == SELDOM)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split()[-1] == str(seldom)


def test_the_option_and_the_program_have_one_default_store():
    assert [option.default for option in OPTIONS if option.name == "store"] == [DEFAULT_STORE]
