"""The code of a commit is an arm: it runs from a git worktree, on the model of the candidate, beside today's code."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import textwrap
import time

import pytest
from cached_suite import CONFTEST, KEY, ONLY, V2, count_new_calls
from git_repositories import commit_all, git, worktrees

pytestmark = pytest.mark.slow  # each session starts a process that imports pytest and the suite

SCRIPT = """
    def answer(request):
        text = request.input if isinstance(request.input, str) else request.input[-1]["content"]
        with open("calls.txt", "a") as file:
            file.write(text + "\\n")
        try:
            return str(eval(text))
        except SyntaxError:
            return "no sum"
"""
TEST = """
    import app
    import pytest

    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    {keyword} test_sums(sample, sampler):
        return {wait} app.solve(sample, sampler)
"""
DRAWS = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.ab_compare("value", margin=9)
    async def test_draws(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(value=int(reply.text.rpartition(" ")[2], 16) / 16**16)
"""
ASYNC = "async def solve(sample, sampler):\n    return await sampler.generate({prompt})\n"
PLAIN = "def solve(sample, sampler):\n    return sampler.generate({prompt})\n"
RIGHT, WRONG = "sample.input", '"Please: " + sample.input'
ON_COMMIT = ("--crucible-adapter=scripted", "--compare=commit:HEAD")


@pytest.fixture
def project(suite):
    """A suite that calls an application, `app`. It becomes a repository with the first commit."""
    suite.script(SCRIPT)
    suite.test(TEST.format(keyword="async def", wait="await"))
    return suite


def write_app(suite, source):
    (suite.path / "app.py").write_text(source)


def test_a_bug_in_the_working_tree_is_a_proven_regression(project):
    write_app(project, ASYNC.format(prompt=RIGHT))
    sha = commit_all(project.path)
    write_app(project, ASYNC.format(prompt=WRONG))
    before = git(project.path, "status", "--porcelain")
    result = project.run(*ON_COMMIT)

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"  scripted at working tree (1 file changed) vs scripted at {sha[:7]}",
            "*exact_match: scripted vs commit:HEAD*",
            "*a regression is proven*",
        ]
    )
    assert (git(project.path, "status", "--porcelain"), worktrees(project.path)) == (before, [str(project.path)])
    assert git(project.path, "branch", "--list") == "* main"


def test_a_bug_that_was_mended_is_an_improvement_also_in_a_plain_function(project):
    project.test(TEST.format(keyword="def", wait=""))
    write_app(project, PLAIN.format(prompt=WRONG))
    commit_all(project.path)
    write_app(project, PLAIN.format(prompt=RIGHT))
    result = project.run(*ON_COMMIT)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["exact_match: scripted vs commit:HEAD *+1.000*met, proven*"])


def test_equal_requests_of_both_arms_are_one_draw_and_paid_for_once(suite, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", KEY)
    suite.pytester.makeconftest(CONFTEST)
    suite.adapters({"v2": {"backend": "model"}})
    suite.test(DRAWS)
    commit_all(suite.path)
    suite.test(f"# A remark.\n{textwrap.dedent(DRAWS)}")
    for arguments in ((), (ONLY,)):
        document = suite.json(V2, "--compare=commit:HEAD", *arguments)

        assert {row["arm"]: row["value"] for row in document["experiments"][0]["estimates"]}.keys() == {
            "v2",
            "commit:HEAD",
        }
        assert len({row["value"] for row in document["experiments"][0]["estimates"] if row["metric"] == "value"}) == 1
    assert count_new_calls(suite) == {"v2": 20}


def test_a_working_tree_without_changes_is_not_compared_with_itself(project):
    write_app(project, ASYNC.format(prompt=RIGHT))
    sha = commit_all(project.path)

    project.refuses(
        project.run(*ON_COMMIT),
        f"commit:HEAD is {sha[:7]}, and nothing in the working tree differs from it: compare with another commit, such as "
        "commit:HEAD~1",
    )
    assert project.calls() == []


def test_a_commit_that_lacks_what_is_compared_is_refused(project):
    write_app(project, ASYNC.format(prompt=RIGHT))
    commit_all(project.path)
    project.test(TEST.format(keyword="async def", wait="await").replace("test_sums", "test_support"), name="test_sums")

    project.refuses(project.run(*ON_COMMIT), "*commit:HEAD has no test_support: name one with --compare=commit:REV")
    project.refuses(
        project.run("--crucible-adapter=scripted", "--compare=commit:abc123"), "commit:abc123: unknown revision"
    )
    (project.path / "test_sums.py").rename(project.path / "test_later.py")
    project.refuses(
        project.run(*ON_COMMIT),
        "*commit:HEAD has no test_later.py: name a commit that has it with --compare=commit:REV",
    )
    assert worktrees(project.path) == [str(project.path)]
    assert project.calls() == []


def test_a_test_that_cannot_be_imported_there_is_refused_with_the_reason(project):
    write_app(project, "import no_such_module\n")
    commit_all(project.path)
    write_app(project, ASYNC.format(prompt=RIGHT))

    project.refuses(
        project.run(*ON_COMMIT),
        "*commit:HEAD: test_sums.py cannot be imported there: ModuleNotFoundError: No module named 'no_such_module'",
    )


OUTCOMES = """
    import os, pathlib
    import pytest

    async def solve(sample, sampler):
        number = int(sample.id[1:])
        if number == 0:
            raise KeyError("before the first call")
        reply = await sampler.generate(sample.input)
        if number == 1:
            raise KeyError("after it")
        if number == 2:
            pytest.skip("not here")
        if number == 3:
            assert reply.text == "7"
        if number == 4:
            return object()
        if number == 5:
            return {"answer": reply.text}
        if number == 6:
            return "of the commit"
        return reply
"""


def test_what_the_function_does_there_counts_as_it_does_here(project):
    project.pytester.makepyfile(app=OUTCOMES)
    commit_all(project.path)
    write_app(project, ASYNC.format(prompt=RIGHT))
    result = project.run(*ON_COMMIT, "--crucible-cache=off")
    first = project.command("show", "latest", "--sample=q00").stdout.str()

    # 1 failed assertion and 1 exception after a reply; 1 exception before one and 1 value that JSON cannot hold.
    result.stdout.fnmatch_lines(
        ["test_sums: commit:HEAD: 2 samples lost (error)", "test_sums: commit:HEAD: 2 samples failed (assertion)"]
    )
    result.stdout.fnmatch_lines(["test_sums: exact_match of commit:HEAD does not apply to 1 of 20 samples*"])
    assert "KeyError: 'before the first call'" in first
    assert 'app.py", line' in lost_details(project)["q00"]
    assert "JSON cannot hold" in lost_details(project)["q04"]


def lost_details(suite):
    """Return why samples are lost, by their ids."""
    with contextlib.closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as store:
        return dict(store.execute("SELECT sample_id, lost.detail FROM lost JOIN samples USING (position)"))


def test_the_death_of_the_process_loses_its_samples_and_a_new_one_takes_the_others(project):
    deadly = (
        "import os\nasync def solve(sample, sampler):\n    if sample.id == 'q07':\n        os.kill(os.getpid(), 9)\n"
    )
    write_app(project, f"{deadly}    return await sampler.generate(sample.input)\n")
    commit_all(project.path)
    write_app(project, ASYNC.format(prompt=RIGHT))
    result = project.run(*ON_COMMIT, "--crucible-concurrency=1")

    result.stdout.fnmatch_lines(["*1 sample* lost*"])
    assert worktrees(project.path) == [str(project.path)]


TAKES_SUFFIX = """
    import pytest

    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler, suffix):
        return await sampler.generate(sample.input + suffix)
"""


def test_the_data_of_fixtures_are_todays(project):
    conftest = "import pytest\n@pytest.fixture\ndef suffix():\n    return {!r}\n"
    project.test(TAKES_SUFFIX)
    (project.path / "conftest.py").write_text(conftest.format(" please"))
    commit_all(project.path)
    (project.path / "conftest.py").write_text(conftest.format(" "))
    result = project.run(*ON_COMMIT)

    result.stdout.fnmatch_lines(["exact_match: scripted vs commit:HEAD *+0.000*"])


def test_a_fixture_that_json_cannot_hold_is_refused_by_its_name(project):
    test = TEST.format(keyword="async def", wait="await").replace("(sample, sampler)", "(sample, sampler, client)", 1)
    project.test(test)
    (project.path / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef client():\n    return object()\n")
    write_app(project, ASYNC.format(prompt=RIGHT))
    commit_all(project.path)
    write_app(project, ASYNC.format(prompt=WRONG))
    result = project.run(*ON_COMMIT)

    assert result.ret != 0
    result.stdout.fnmatch_lines(
        ["*fixture 'client' is object, which JSON cannot hold, so another commit cannot receive it*"]
    )
    assert project.calls() == []


ENDPOINT = """
    import json, urllib.request
    import app
    import pytest

    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match", "calls"])
    @pytest.mark.ab_compare("exact_match")
    def test_agent(sample, endpoint):
        body = {"model": "any", "messages": [{"role": "user", "content": app.prompt(sample)}]}
        data = json.dumps(body).encode()
        request = urllib.request.Request(endpoint.base_url + "/chat/completions", data, {"content-type": "application/json"})
        answer = json.loads(urllib.request.urlopen(request, timeout=20).read())
        assert endpoint.calls == 1
        return answer["choices"][0]["message"]["content"]
"""


@pytest.mark.uses("agents")
def test_a_commits_function_sends_its_calls_over_the_endpoint(project):
    project.test(ENDPOINT)
    write_app(project, f"def prompt(sample):\n    return {RIGHT}\n")
    commit_all(project.path)
    write_app(project, f"def prompt(sample):\n    return {WRONG}\n")
    result = project.run(*ON_COMMIT)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*exact_match: scripted vs commit:HEAD*a regression is proven*"])


SLOW = """
import asyncio
async def solve(sample, sampler):
    open(PATH, "w").close()
    await asyncio.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_session_leaves_nothing_behind_at_last(project, number):
    started = project.path / "started.txt"
    write_app(project, SLOW.replace("PATH", repr(str(started))))
    commit_all(project.path)
    write_app(project, SLOW.replace("PATH", repr(str(started))) + "# changed\n")
    with project.popen("-q", *ON_COMMIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(started.exists)
        *_, tree = worktrees(project.path)
        child = processes_in(tree)
        process.send_signal(number)
    if number == signal.SIGKILL:
        until(lambda: not processes_in(tree))
        assert worktrees(project.path) == [str(project.path), tree]
        listed = project.command("gc").stdout.str()
        assert os.path.dirname(tree) in listed
        project.command("gc", "--delete")

    assert child
    assert not processes_in(tree)
    assert worktrees(project.path) == [str(project.path)]
    assert not os.path.exists(os.path.dirname(tree))


def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def processes_in(tree):
    """Return the processes whose directory is in a worktree."""
    listing = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/cwd").startswith(tree):
                listing.append(process)
        except OSError:
            continue
    return listing
