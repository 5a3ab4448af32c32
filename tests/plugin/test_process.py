"""A session leaves the process that it ran in as it was."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any

import pytest

WATCH = """
    import atexit, gc, os, signal, sys, threading

    audit_hooks = []
    add_audit_hook = sys.addaudithook
    sys.addaudithook = lambda hook: (audit_hooks.append(hook.__module__), add_audit_hook(hook))
    at_exit = []
    register = atexit.register

    def watched_register(function, *arguments, **named):
        if str(getattr(function, "__module__", "")).startswith("pytest_crucible"):
            at_exit.append(function.__qualname__)
        return register(function, *arguments, **named)

    atexit.register = watched_register
    STATE = {
        "pytest_crucible.metrics.models.scorers": ("_openers", "_opened"),
        "pytest_crucible.sandbox.pool": ("_grants", "_shared"),
    }

    def open_files():
        names = []
        for number in os.listdir("/proc/self/fd"):
            try:
                names.append(os.readlink("/proc/self/fd/" + number))
            except OSError:
                pass  # the directory that is being listed
        return sorted(name for name in names if name.startswith(os.getcwd()) or "crucible" in name)

    def module_state():
        state = {}
        for name, attributes in STATE.items():
            module = sys.modules.get(name)
            state |= {} if module is None else {one: repr(getattr(module, one)) for one in attributes}
        rules = sys.modules.get("pytest_crucible.features.cns3.antagonist")
        if rules is not None and rules.rules() is not rules.DEFAULT_RULES:
            state["rules"] = repr(rules.rules())
        return {name: value for name, value in state.items() if value not in ("{}", "[]")}

    def snapshot():
        return {
            "import finders": [getattr(finder, "__name__", type(finder).__qualname__) for finder in sys.meta_path],
            "import hooks": len(sys.path_hooks),
            "audit hooks": list(audit_hooks),
            "functions at exit": list(at_exit),
            "garbage collector": [gc.isenabled(), *gc.get_threshold(), gc.get_freeze_count()],
            "environment": {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "threads": sorted(thread.name for thread in threading.enumerate()),
            "open files": open_files(),
            "signal handlers": [repr(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
            "interpreter": [sys.getswitchinterval(), sys.getrecursionlimit(), sys.gettrace(), sys.getprofile()],
            "hooks": [sys.excepthook is sys.__excepthook__, sys.unraisablehook is sys.__unraisablehook__],
        }
"""
RUN = """
    import json, sys

    import watch

    import pytest

    before = watch.snapshot()
    status = int(pytest.main(["-p", "no:asyncio", "-p", "no:anyio", *sys.argv[1:]]))
    after = watch.snapshot()
    changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
    print(json.dumps({"status": status, "changed": changed, "state": watch.module_state()}))
"""
EXPERIMENT = ("--crucible-adapter=v2", "--compare=v1", "--crucible-report=run.html", "test_sums.py")
TABLES = """
    [adapters.grader]
    backend = "scripted"
    script = "scripts:answer"

    [scorers]
    judge = { adapter = "grader" }

    [[antagonist.rules]]
    name = "WEAK"
    severity = "HIGH"
    when = ["entailment < 0.5"]
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="open files are read from /proc")


@pytest.fixture
def changes(suite):
    """Return what a session has changed for good in a process of its own."""

    def changes(*arguments: str, status: pytest.ExitCode = pytest.ExitCode.OK) -> dict[str, Any]:
        suite.pytester.makepyfile(watch=WATCH, run=RUN, test_bystander="def test_bystander():\n    pass\n")
        result = suite.pytester.run(sys.executable, "run.py", *arguments)
        document = json.loads(result.outlines[-1])
        assert document["status"] == status
        return {**document["changed"], **document["state"]}

    return changes


@pytest.mark.slow
def test_a_session_with_experiments_leaves_the_process_as_it_was(changes):
    assert changes(*EXPERIMENT) == {}


@pytest.mark.uses("cns3")
@pytest.mark.slow
def test_a_session_with_code_judge_and_rules_leaves_the_process_as_it_was(suite, changes):
    configuration = suite.path / "crucible.toml"
    configuration.write_text(configuration.read_text() + textwrap.dedent(TABLES))
    suite.pytester.makepyfile(scripts="def answer(request):\n    return 'yes'\n")
    suite.test(
        """
        import pytest
        from pytest_crucible import sandbox
        from pytest_crucible.metrics.models import scorers
        from pytest_crucible.features.cns3 import antagonist

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        async def test_sums(sample, sampler):
            assert sandbox.is_allowed()
            assert scorers.judge() is not None
            assert [rule.name for rule in antagonist.rules()] == ["WEAK"]
            return await sampler.generate(sample.input)
        """
    )

    assert changes(*EXPERIMENT, "--crucible-run-code") == {}


@pytest.mark.slow
def test_a_refused_session_leaves_the_process_as_it_was(changes):
    assert changes("--crucible-adapter=v9", "test_sums.py", status=pytest.ExitCode.USAGE_ERROR) == {}


@pytest.mark.slow
def test_a_session_with_a_missed_target_leaves_the_process_as_it_was(changes):
    assert changes("--crucible-adapter=poor", "test_sums.py", status=pytest.ExitCode.TESTS_FAILED) == {}


@pytest.mark.slow
def test_a_session_without_experiments_leaves_the_process_as_it_was(changes):
    assert changes("test_bystander.py") == {}
