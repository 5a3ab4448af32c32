"""The gate of a model: each way to meet a part of it, or a weaker one, is refused and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_crucible.cli import main

SUMS = """
    import pytest
    from pytest_crucible.metrics import metric

    @metric(kind="binary", version="1")
    def right(reply, sample):
        return reply.text == sample.expected

    @pytest.mark.parametrize("case", ["a", "b"])
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=[right])
    @pytest.mark.quality_target("right >= 0.20")
    @pytest.mark.ab_compare("right", margin=0.30)
    async def test_sums(sample, sampler, case):
        return await sampler.generate(sample.input)
"""
HARD = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.85")
    async def test_hard(sample, sampler):
        return await sampler.generate(sample.input)
"""
HARD_NODE = "test_hard.py::test_hard"
A, B = "test_sums.py::test_sums[a]", "test_sums.py::test_sums[b]"
GATE = "gate 1 of claims"
RULES = "[registry]\nclean_commit = false\nproven = false\n"


def prepare(suite: Any) -> None:
    """v3 is claims@1 and in production by its first gate; v2 is claims@2, and misses the target of test_hard."""
    suite.test(SUMS)
    suite.test(HARD, name="test_hard")
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(RULES)
    suite.run("--crucible-adapter=v3").assert_outcomes(passed=6)
    for arguments in (
        ("models", "register", "v3", "--model", "claims"),
        ("models", "promote", "latest", "--to", "production"),
        ("models", "register", "v2", "--model", "claims"),
    ):
        assert main(arguments) == 0


@pytest.fixture
def gated(suite, command) -> Any:
    suite.prepare_once(prepare)
    return suite


def edit(suite: Any, name: str, old: str, new: str) -> None:
    path = suite.path / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def prepend(suite: Any, name: str, text: str) -> None:
    path = suite.path / name
    path.write_text(f"{text}\n{path.read_text()}")


def conftest(suite: Any, text: str) -> None:
    (suite.path / "conftest.py").write_text(text)


DESELECTING = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "hard" not in item.name]
"""
SWITCH = "import os\nif os.environ.get('FAST'):\n    collect_ignore = ['test_hard.py']\n"
SKIPPING = """
import os
import pytest
@pytest.fixture(autouse=True)
def skip_the_hard(request):
    if "hard" in request.node.name:
        pytest.skip("not today")
"""


def nothing(suite: Any) -> None:
    """Leave the suite as it is."""


# What is done to the suite before the run, pytest's arguments, and what the refusal names.
DODGES: dict[str, tuple[Callable[[Any], object], tuple[str, ...], str]] = {
    "one of two files": (nothing, ("test_sums.py",), f"run {{run}} gives no verdict on {HARD_NODE} (not collected)"),
    "one of two tests": (nothing, ("test_sums.py::test_sums",), f"run {{run}} gives no verdict on {HARD_NODE} (not collected)"),
    "fewer parameters": (
        lambda suite: edit(suite, "test_sums.py", '["a", "b"]', '["a"]'),
        (),
        f"run {{run}} gives no verdict on {B} (not collected)",
    ),
    "one parameter": (nothing, ("test_sums.py::test_sums[a]", "test_hard.py"), f"gives no verdict on {B} (not collected)"),
    "-k": (nothing, ("-k", "sums"), f"run {{run}} leaves out {HARD_NODE} (deselected)"),
    "--deselect": (nothing, ("--deselect", HARD_NODE), f"run {{run}} leaves out {HARD_NODE} (deselected)"),
    "--ignore": (nothing, ("--ignore=test_hard.py",), f"run {{run}} gives no verdict on {HARD_NODE} (not collected)"),
    "a conftest.py that deselects": (
        lambda suite: conftest(suite, DESELECTING),
        (),
        f"the suite leaves out {HARD_NODE} (deselected)",
    ),
    "a skip mark": (
        lambda suite: edit(suite, "test_hard.py", "@pytest.mark.crucible", "@pytest.mark.skip('flaky')\n@pytest.mark.crucible"),
        (),
        f"run {{run}} leaves out {HARD_NODE} (skipped (flaky))",
    ),
    "a skipif mark": (
        lambda suite: prepend(suite, "test_hard.py", "import pytest\npytestmark = pytest.mark.skipif(True, reason='slow')"),
        (),
        f"run {{run}} leaves out {HARD_NODE} (skipped (slow))",
    ),
    "an xfail mark": (
        lambda suite: edit(suite, "test_hard.py", "@pytest.mark.crucible", "@pytest.mark.xfail\n@pytest.mark.crucible"),
        (),
        f"run {{run}} leaves out {HARD_NODE} (expected to fail (no reason given))",
    ),
    "a module that skips itself": (
        lambda suite: prepend(suite, "test_hard.py", "import pytest\npytest.skip('later', allow_module_level=True)"),
        (),
        f"the suite gives no verdict on {HARD_NODE} (test_hard.py is skipped (later))",
    ),
    "importorskip": (
        lambda suite: prepend(suite, "test_hard.py", "import pytest\npytest.importorskip('no_such_package')"),
        (),
        f"the suite gives no verdict on {HARD_NODE} (test_hard.py is skipped (could not import 'no_such_package'",
    ),
    "a variable that conftest.py reads": (
        lambda suite: conftest(suite, SWITCH),
        (),
        f"run {{run}} gives no verdict on {HARD_NODE} (not collected)",
    ),
    "another name": (
        lambda suite: edit(suite, "test_hard.py", "def test_hard", "def test_easy"),
        (),
        f"run {{run}} gives no verdict on {HARD_NODE} (not collected)",
    ),
    "no target": (
        lambda suite: edit(suite, "test_hard.py", '@pytest.mark.quality_target("exact_match >= 0.85")', ""),
        (),
        f"run {{run}} gives no verdict on {HARD_NODE} (it has no target and no comparison)",
    ),
    "a fixture that skips": (
        lambda suite: conftest(suite, SKIPPING),
        (),
        f"run {{run}} collected {HARD_NODE} and did not run it, which gate 1 of claims asks for",
    ),
    "a lower target": (
        lambda suite: edit(suite, "test_hard.py", "0.85", "0.10"),
        (),
        f"run {{run}} has target exact_match >= 0.85 of {HARD_NODE}: nothing, but {GATE} has point",
    ),
    "a larger margin": (
        lambda suite: edit(suite, "test_sums.py", "margin=0.30", "margin=0.99"),
        (),
        f"has comparison of right of {A}, {B}: non-inferior by 0.99, but {GATE} has non-inferior by 0.3:",
    ),
    "a limit": (
        lambda suite: edit(suite, "test_hard.py", "metrics=", "limit=5, metrics="),
        (),
        f"run {{run}} has dataset of {HARD_NODE}: questions.jsonl, 5 samples, ",
    ),
    "an easier dataset": (
        lambda suite: suite.write_rows("questions.jsonl", [{"id": "q00", "input": "0 + 0", "expected": "0"}]),
        (),
        f"run {{run}} has dataset of {HARD_NODE}, {A}, {B}: questions.jsonl, 1 sample, ",
    ),
    "a changed metric of the same version": (
        lambda suite: edit(suite, "test_sums.py", "reply.text == sample.expected", "True"),
        (),
        f"run {{run}} has metric right of {A}, {B}: binary",
    ),
    "a changed function": (
        lambda suite: edit(suite, "test_hard.py", "generate(sample.input)", "generate(sample.input + ' ')"),
        ("--crucible-cache=off",),
        f"has test function of {HARD_NODE}: ",
    ),
    "a fixture": (
        lambda suite: prepend(suite, "test_hard.py", "import pytest\n@pytest.fixture(autouse=True)\ndef patch():\n    yield"),
        (),
        f"run {{run}} has test function of {HARD_NODE}: ",
    ),
    "a hook in conftest.py": (
        lambda suite: conftest(suite, "def pytest_crucible_verdict(verdict):\n    return None\n"),
        (),
        f"run {{run}} has file conftest.py of {HARD_NODE}, test_sums.py::test_sums[a], ",
    ),
    "a plugin of the command line": (
        lambda suite: (suite.path / "lenient.py").write_text("X = 1\n"),
        ("-p", "lenient"),
        "run {run} has plugin lenient: ",
    ),
    "early stop": (nothing, ("--crucible-stop",), f"run {{run}} has early stop: yes, but {GATE} has no"),
    "no data checks": (nothing, ("--crucible-checks=off",), f"run {{run}} has data checks: no, but {GATE} has yes"),
    "options of pytest.ini": (
        nothing,
        ("-o", "crucible_reasoning=keep"),
        f"run {{run}} has reasoning: keep, but {GATE} has strip",
    ),
    "a timeout": (
        nothing,
        ("--crucible-timeout=7",),
        f"run {{run}} has timeout of {HARD_NODE}, {A}, {B}: 7.0 s, but {GATE} has 300.0 s",
    ),
    "weaker rules": (
        lambda suite: edit(suite, "crucible.toml", "clean_commit = false", "clean_commit = false\nmax_age_days = 400"),
        (),
        f"[registry] has max_age_days = 400.0, but {GATE} has 30.0",
    ),
}  # fmt: skip


EVERYDAY = (
    *(
        "one of two tests",
        "-k",
        "a conftest.py that deselects",
        "a skip mark",
        "an xfail mark",
        "a module that skips itself",
    ),
    *("a variable that conftest.py reads", "a lower target", "a larger margin", "an easier dataset", "early stop"),
    *("a changed metric of the same version", "a fixture that skips"),
)


USES = {"early stop": ["stages"], "no data checks": ["data_checks"]}


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        pytest.param(
            *DODGES[name],
            id=name,
            marks=[pytest.mark.uses(*USES.get(name, ())), *([] if name in EVERYDAY else [pytest.mark.slow])],
        )
        for name in DODGES
    ],
)
def test_a_run_that_dodges_the_gate_is_refused(gated, command, monkeypatch, change, arguments, sentence):
    change(gated)
    with monkeypatch.context() as patched:
        patched.setenv("FAST", "1")
        patched.syspath_prepend(gated.path)
        gated.run("--crucible-adapter=claims@2", "--compare=production", "--crucible-tag=dodge", *arguments)

    status, printed = command("models", "promote", "tag:dodge", "--to", "candidate")
    assert status == 4
    run = command("runs", "--tag=dodge")[1].split()
    assert any(sentence.format(run=name) in printed for name in run), printed


def test_two_runs_that_measure_half_of_the_gate_each_are_refused(gated, command):
    for tag, file in (("first", "test_sums.py"), ("second", "test_hard.py")):
        gated.run("--crucible-adapter=claims@2", "--compare=production", f"--crucible-tag={tag}", file)
        assert command("models", "promote", f"tag:{tag}", "--to", "candidate")[0] == 4


def test_a_first_promotion_needs_the_whole_suite(suite, command):
    suite.test(SUMS)
    suite.test(HARD, name="test_hard")
    edit(suite, "crucible.toml", "[adapters.v1]", f"{RULES}[adapters.v1]")
    suite.run("--crucible-adapter=v2", "test_sums.py")
    assert command("models", "register", "v2", "--model", "claims")[0] == 0

    status, printed = command("models", "promote", "latest", "--to", "production")
    assert status == 4
    assert printed.endswith(
        f"gives no verdict on {HARD_NODE} (not collected), which the suite of claims asks for: run it, or name the tests of "
        "its gate with `crucible models gate freeze claims SUITE`\n"
    )
    assert command("models", "gate", "show", "claims")[0] == 4

    # Named, and in the log, a part may be the gate.
    assert command("models", "gate", "freeze", "claims", "test_sums.py") == (
        0,
        command("models", "gate", "show", "claims")[1],
    )
    _, printed = command("models", "promote", "latest", "--to", "production")
    assert printed == "claims@1 is in production, was draft\n"
    assert command("models")[1].endswith("2 verdicts met, 2 proven, 40 samples, gate 1\n")


def test_a_gate_is_changed_with_a_reason_and_shown_side_by_side(gated, command):
    assert command("models", "gate", "freeze", "claims")[1] == (
        "gate 1 of claims: 3 experiments of all that pytest collects, as before\n"
    )
    edit(gated, "test_sums.py", "margin=0.30", "margin=0.99")
    assert command("models", "gate", "freeze", "claims", "test_sums.py") == (
        4,
        "crucible models gate freeze: gate 1 of claims changes (suite, test_hard.py::test_hard, "
        "test_sums.py::test_sums[a] comparison of right, test_sums.py::test_sums[b] comparison of right): "
        "add --why TEXT, the reason for the log\n",
    )
    _, printed = command("models", "gate", "freeze", "claims", "test_sums.py", "--why", "only sums")
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0][:3] == ["gate", "2", "of"]
    assert lines[1] == ["demand", "gate", "1", "gate", "2"]
    assert any("0.3" in line and "0.99" in line for line in lines)
    assert any(line[0] == HARD_NODE and line[-1] == "nothing" for line in lines[2:])

    gated.run("--crucible-adapter=claims@2", "--compare=production", "test_sums.py")
    assert command("models", "promote", "latest", "--to", "production")[0] == 0
    log = command("models", "list", "claims", "--log")[1]
    assert ["claims", "gate", "1", "->", "gate", "2", "-", "2", "only", "sums"] in [
        line.split()[4:] for line in log.splitlines()
    ]
    assert command("models", "gate", "show", "claims")[1].count("only sums") == 1


def test_a_suite_that_leaves_something_out_is_not_frozen(suite, command):
    suite.test(SUMS)
    skipped = HARD.replace("@pytest.mark.crucible", "@pytest.mark.skip(reason='flaky')\n    @pytest.mark.crucible")
    suite.test(skipped, name="test_hard")

    status, printed = command("models", "gate", "freeze", "claims")

    assert (status, printed) == (
        4,
        f"crucible models gate freeze: the suite leaves out {HARD_NODE}, which is skipped (flaky): let it run (--env NAME "
        "passes a variable of the environment to it), or name the tests of the gate: "
        "crucible models gate freeze claims test_sums.py::test_sums[a]\n",
    )
    conftest(suite, "import os\nKEY = os.environ['A_KEY']\n")
    assert "KeyError: 'A_KEY'" in command("models", "gate", "freeze", "claims", "test_sums.py")[1]


def test_a_gate_is_collected_with_the_variables_that_it_names(suite, command, monkeypatch):
    suite.test(HARD.replace("import pytest", "import os, pytest\n    LEAST = os.environ['LEAST']"))
    edit(suite, "test_sums.py", '"exact_match >= 0.85"', "f'exact_match >= {LEAST}'")
    monkeypatch.setenv("LEAST", "0.5")

    status, printed = command("models", "gate", "freeze", "claims", "--env", "LEAST")

    assert (status, "target exact_match >= 0.5 " in printed) == (0, True)


def test_force_keeps_what_the_gate_lacked(gated, command):
    gated.run("--crucible-adapter=claims@2", "--compare=production", "test_sums.py")

    status, printed = command("models", "promote", "latest", "--to", "production", "--force", "--why", "a demo")

    assert (status, f"gives no verdict on {HARD_NODE}" in printed) == (0, True)
    assert f"gives no verdict on {HARD_NODE}" in command("models", "--log")[1]


JOINED = """
    import pytest

    @pytest.mark.quality_target("right >= 0.20")
    @pytest.mark.parametrize("k", range(4))
    def test_joined(crucible, k):
        crucible.score(right=True)
"""


def test_a_gate_asks_for_all_items_of_a_joined_test(suite, command):
    suite.test(JOINED)
    edit(suite, "crucible.toml", "[adapters.v1]", f"{RULES}[adapters.v1]")
    suite.run("--crucible-adapter=v2").assert_outcomes(passed=5)
    for arguments in (
        ("models", "register", "v2", "--model", "claims"),
        ("models", "promote", "latest", "--to", "candidate"),
    ):
        assert command(*arguments)[0] == 0
    edit(suite, "test_sums.py", "range(4)", "[0, 1, 2, pytest.param(3, marks=pytest.mark.skip('odd'))]")

    suite.run("--crucible-adapter=v2")

    assert (
        "leaves out test_sums.py::test_joined (skipped (odd))"
        in command("models", "promote", "latest", "--to", "staged")[1]
    )
    edit(suite, "test_sums.py", "[0, 1, 2, pytest.param(3, marks=pytest.mark.skip('odd'))]", "range(3)")
    suite.run("--crucible-adapter=v2")
    assert (
        "has dataset of test_sums.py::test_joined: 3 items, "
        in command("models", "promote", "latest", "--to", "staged")[1]
    )


@pytest.mark.slow
def test_workers_record_what_a_run_collected(gated, command):
    gated.run_n2("--crucible-adapter=claims@2", "--compare=production", "-k", "sums")

    assert f"leaves out {HARD_NODE} (deselected)" in command("models", "promote", "latest", "--to", "candidate")[1]
