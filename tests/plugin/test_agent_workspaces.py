"""Workspaces: a directory for each unit, filled before its function, scored after it, and removed then."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fork_server import INTERPRETER

from pytest_crucible.sandbox.program_profile import missing_parts

ECHO = "def answer(request): return request.input if isinstance(request.input, str) else request.input[-1]['content']\n"
SUITE = """
    import asyncio, sqlite3
    import pytest
    from pathlib import Path
    from pytest_crucible import agents

    HERE = Path(__file__).parent
    SAMPLES = [{{"id": f"q{{k}}", "input": str(k), "expected": f"{{k}}\\n"}} for k in range({samples})]

    {helpers}

    @pytest.mark.crucible(SAMPLES, metrics=[{metrics}], epochs={epochs})
    @pytest.mark.environment({environment})
    async def test_state(sample, sampler, workspace):
        {body}
        return await sampler.generate(sample.input)
"""


def write_suite(
    suite: Any,
    *,
    environment: str,
    body: str = "pass",
    metrics: str = "",
    helpers: str = "",
    samples: int = 3,
    epochs: int = 1,
) -> None:
    suite.script(ECHO)
    indented = helpers.replace("\n", "\n    ")
    suite.test(
        SUITE.format(
            environment=environment,
            body=body.replace("\n", "\n        "),
            metrics=metrics or '"exact_match"',
            helpers=indented,
            samples=samples,
            epochs=epochs,
        )
    )


def query(suite: Any, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        return connection.execute(statement).fetchall()


def scores(suite: Any, metric: str) -> list[Any]:
    return [
        value
        for (value,) in query(suite, f"SELECT value FROM observations WHERE metric = '{metric}' ORDER BY position")
    ]


def test_each_unit_has_its_own_copy_of_the_files_which_metrics_see_and_nothing_stays(suite):
    (suite.path / "fixtures" / "repo").mkdir(parents=True)
    (suite.path / "fixtures" / "repo" / "shared.txt").write_text("")
    write_suite(
        suite,
        environment='files="fixtures/repo"',
        body="""
with open(workspace / "shared.txt", "a") as file:
    file.write(f"{sample.input}\\n")
with open(HERE / "paths.txt", "a") as file:
    file.write(f"{workspace}\\n")
""",
        metrics='agents.file_equals("shared.txt")',
        epochs=2,
    )
    suite.script(f"{ECHO}\ndef base(request): return 'other'\n")
    test = (
        (suite.path / "test_sums.py")
        .read_text()
        .replace("@pytest.mark.env", "@pytest.mark.ab_compare('shared.txt_equals')\n@pytest.mark.env")
    )
    (suite.path / "test_sums.py").write_text(test)
    suite.run("--crucible-adapter=scripted", "--crucible-compare=base")

    assert scores(suite, "shared.txt_equals") == [1.0] * 12
    paths = (suite.path / "paths.txt").read_text().split()
    assert len(paths) == len(set(paths)) == 12
    assert not any(Path(path).exists() for path in paths)
    assert (suite.path / "fixtures" / "repo" / "shared.txt").read_text() == ""


def sent(suite: Any) -> int:
    return len(suite.calls())


COUNTED = ECHO.replace(
    ": return", ":\n    with open('calls.txt', 'a') as file:\n        file.write('call\\n')\n    return"
)


def test_stored_replies_to_other_files_or_after_another_set_up_are_not_used(suite):
    helpers = "def fill(workspace, sample):\n    (workspace / 'state').write_text('new')"
    write_suite(suite, environment='setup=fill, files="repo"', helpers=helpers)
    (suite.path / "scripts.py").write_text(COUNTED.replace("def answer", "def base") + COUNTED)
    test = suite.path / "test_sums.py"
    compared = '@pytest.mark.ab_compare("exact_match")\nasync def test_state'
    test.write_text(test.read_text().replace("async def test_state", compared))
    (suite.path / "repo").mkdir()
    (suite.path / "repo" / "readme").write_text("hello")

    def run() -> int:
        before = sent(suite)
        assert suite.run("--crucible-adapter=scripted", "--compare=base", "--crucible-cache=off").ret == 0
        return sent(suite) - before

    first, again = run(), run()
    (suite.path / "repo" / "readme").write_text("hello, you")
    other_files = run()
    test.write_text(test.read_text().replace("'state').write_text('new')", "'state').write_text('new ')"))
    other_setup = run()

    # The second session sends the candidate alone.
    assert (first, again) == (6, 3)
    assert (other_files, other_setup) == (6, 6)


def test_the_path_of_a_workspace_is_the_same_in_each_run(suite):
    write_suite(
        suite,
        environment="",
        body="""
with open(HERE / f"path-{sample.id}", "a") as file:
    file.write(f"{workspace}\\n")
""",
    )
    for _ in range(2):
        suite.run("--crucible-adapter=scripted", "--crucible-cache=off").assert_outcomes(passed=1)

    first, second = (suite.path / "path-q1").read_text().split()
    assert first == second


def test_setup_and_teardown_get_the_workspace_and_the_sample(suite):
    write_suite(
        suite,
        environment="setup=make, teardown=end",
        helpers="""
async def make(workspace, sample):
    await asyncio.sleep(0)
    (workspace / "in.txt").write_text(sample.input)

def end(workspace, sample):
    (HERE / f"end-{sample.id}").write_text((workspace / "in.txt").read_text())
""",
        body='assert (workspace / "in.txt").read_text() == sample.input',
    )
    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1)

    assert [(suite.path / f"end-q{k}").read_text() for k in range(3)] == ["0", "1", "2"]


def test_a_command_sets_a_workspace_up(suite):
    write_suite(
        suite, environment="setup='git init -q', teardown=['true']", body='assert (workspace / ".git").is_dir()'
    )

    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1)
    assert query(suite, "SELECT COUNT(*) FROM replies WHERE failure IS NULL") == [(3,)]


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ("setup=make", "setup make of sample 'q1' failed: RuntimeError: no disk"),
        ("setup=['sh', '-c', 'echo no disk >&2; exit 3']", "failed: exit status 3: no disk"),
        ("setup='no-such-program'", "there is no program 'no-such-program' to run"),
    ],
)
def test_a_setup_that_fails_loses_its_sample_and_is_named(suite, environment, sentence):
    helpers = """
def make(workspace, sample):
    if sample.id == "q1":
        raise RuntimeError("no disk")
"""
    write_suite(suite, environment=environment, helpers=helpers)
    suite.run("--crucible-adapter=scripted")

    lost = query(suite, "SELECT reason, detail FROM lost WHERE metric IS NULL OR metric = ''")
    assert lost
    assert {reason for reason, _ in lost} == {"error"}
    assert any(sentence in detail for _, detail in lost), lost


def test_a_teardown_that_fails_is_a_line_and_loses_nothing(suite):
    write_suite(suite, environment="teardown=['sh', '-c', 'exit 9']")
    result = suite.run("--crucible-adapter=scripted")

    result.assert_outcomes(passed=1)
    assert "of sample 'q0' failed: exit status 9" in result.stdout.str()
    assert query(suite, "SELECT COUNT(*) FROM replies") == [(3,)]


def test_workspaces_of_failed_samples_can_be_kept(suite):
    write_suite(
        suite,
        environment='keep="failed"',
        body='(workspace / "a").write_text("0\\n")',
        metrics='agents.file_equals("a")',
    )
    result = suite.run("--crucible-adapter=scripted")

    (line,) = (line for line in result.stdout.lines if "workspaces of failed samples are in" in line)
    root = Path(line.partition(" are in ")[2].partition(",")[0])
    assert len(list(root.iterdir())) == 2


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ("files='nowhere'", "*files='nowhere': there is no such directory or file"),
        ("set_up=1", "*@pytest.mark.environment has no argument 'set_up'*'setup'*"),
        ("keep='all'", "*has keep='all': write keep='failed'*"),
        ("setup=3", "*has setup=3: write a function (workspace, sample), or a command"),
    ],
)
def test_wrong_arguments_end_the_session_before_a_request(suite, environment, sentence):
    write_suite(suite, environment=environment)

    suite.refuses(suite.run("--crucible-adapter=scripted"), sentence)


def test_an_environment_that_nothing_uses_is_refused(suite):
    suite.script(ECHO)
    suite.test(
        """
        import pytest

        @pytest.mark.crucible("questions.jsonl")
        @pytest.mark.environment()
        async def test_state(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    suite.refuses(suite.run("--crucible-adapter=scripted"), "*has an environment: take the argument `workspace`*")


def test_a_program_in_the_workspace_of_another_sample_is_refused(suite):
    write_suite(
        suite,
        environment="",
        helpers="places = []",
        body="""
places.append(workspace)
while len(places) < 3:
    await asyncio.sleep(0.01)
await endpoint.run(["true"], cwd=next(place for place in places if place != workspace))
""",
    )
    test = (suite.path / "test_sums.py").read_text().replace("sampler, workspace", "sampler, workspace, endpoint")
    (suite.path / "test_sums.py").write_text(test)
    result = suite.run("--crucible-adapter=scripted")

    result.assert_outcomes(failed=1)
    assert "is the workspace of another sample" in result.stdout.str()


DATABASE = """
def make(workspace, sample):
    with sqlite3.connect(workspace / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, state TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'open'), (2, 'open')")
    connection.close()
"""


def test_rows_of_a_database_are_compared_after_the_run(suite):
    write_suite(
        suite,
        environment="setup=make",
        helpers=DATABASE,
        body="""
if sample.id == "q0":
    with sqlite3.connect(workspace / "shop.db") as connection:
        connection.execute("UPDATE orders SET state = 'refunded' WHERE id = 2")
    connection.close()
elif sample.id == "q1":
    (workspace / "shop.db").write_bytes(b"x" * 5000)
elif sample.id == "q2":
    (workspace / "shop.db").unlink()
""",
        samples=4,
        metrics="""agents.rows("shop.db", "SELECT * FROM orders ORDER BY id", [(1, "open"), (2, "refunded")]),
            agents.rows("shop.db", "SELECT state FROM orders ORDER BY id", ["open", "open"], name="unchanged")""",
    )
    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1)

    assert scores(suite, "rows") == [1.0, 0.0, 0.0, 0.0]
    assert scores(suite, "unchanged") == [0.0, 0.0, 0.0, 1.0]


TESTED = """
if sample.id == "q0":
    (workspace / "sums.py").write_text("def add(a, b): return a + b")
elif sample.id == "q1":
    (workspace / "sums.py").write_text("def add(a, b): return a - b")
elif sample.id == "q2":
    (workspace / "test_sums_of_agent.py").write_text("def test_add(): pass")
"""


@pytest.mark.skipif(bool(missing_parts()), reason=missing_parts())
def test_tests_that_pass_run_in_the_sandbox_once_they_are_allowed(suite):
    hidden = suite.path / "hidden"
    hidden.mkdir()
    (hidden / "test_sums_of_agent.py").write_text(
        "import socket, pytest\nfrom sums import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
        f"    with pytest.raises(OSError): open({str(suite.path / 'out')!r}, 'w')\n"
        "    with pytest.raises(OSError): socket.create_connection(('127.0.0.1', 9), timeout=1)\n"
    )
    command = f"{INTERPRETER} -m pytest -q -p no:cacheprovider -p no:crucible"
    write_suite(suite, environment="", body=TESTED, metrics=f'agents.tests_pass("{command}", files=HERE / "hidden")')
    refused = suite.run("--crucible-adapter=scripted", "test_sums.py")
    allowed = suite.run("--crucible-adapter=scripted", "--crucible-run-code", "test_sums.py")

    assert "allow it with --crucible-run-code" in refused.stdout.str()
    allowed.assert_outcomes(passed=1)
    assert scores(suite, "tests_pass")[-3:] == [1.0, 0.0, 0.0]


@pytest.mark.slow
def test_a_killed_session_is_resumed_with_fresh_workspaces(suite):
    write_suite(
        suite,
        environment="",
        body="""
assert not list(workspace.iterdir())
(workspace / "begun").touch()
with open(HERE / "paths.txt", "a") as file:
    file.write(f"{sample.id} {workspace}\\n")
if sample.id != "q0" and not (HERE / "second").exists():
    await asyncio.sleep(60)
""",
    )
    session = suite.popen("--crucible-adapter=scripted")
    paths = suite.path / "paths.txt"
    deadline = time.monotonic() + 240
    while not (paths.exists() and len(paths.read_text().splitlines()) == 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)
    session.kill()
    session.wait()
    first = dict(line.split() for line in paths.read_text().splitlines())
    assert Path(first["q1"], "begun").exists()
    (suite.path / "second").touch()
    suite.run("--crucible-adapter=scripted", "--crucible-resume").assert_outcomes(passed=1)

    lines = [line.split() for line in paths.read_text().splitlines()][3:]
    assert dict(lines).items() <= first.items()
    assert "q0" not in dict(lines)
    assert not Path(first["q1"]).exists()


@pytest.mark.slow
def test_workers_have_workspaces_of_their_own(suite):
    write_suite(
        suite,
        environment="setup=make",
        helpers=DATABASE,
        metrics='agents.rows("shop.db", "SELECT COUNT(*) FROM orders", 2)',
    )
    suite.run_n2("--crucible-adapter=scripted").assert_outcomes(passed=1)

    assert scores(suite, "rows") == [1.0] * 3


def test_a_single_sample_has_its_workspace(suite):
    suite.script(
        "from pytest_crucible import Reply\ndef answer(request):\n    return Reply(text='done')\nbase = answer"
    )
    suite.test(
        """
        import pytest
        from pytest_crucible import agents

        def fill(workspace, sample):
            (workspace / "state.txt").write_text("open")

        @pytest.mark.crucible([{"id": "q1", "input": "close"}], metrics=[agents.file_equals("state.txt", "open, closed")])
        @pytest.mark.environment(setup=fill)
        def test_state(sample, endpoint, workspace):
            (workspace / "state.txt").write_text((workspace / "state.txt").read_text() + ", closed")
            return "done"
        """
    )

    result = suite.run("--crucible-adapter=scripted", "--crucible-sample=q1")

    result.stdout.fnmatch_lines(["reply    done", "state.txt_equals = True"])
