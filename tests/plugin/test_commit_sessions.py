"""Commits as arms beside the other ways to run a session: workers, resumed runs, estimates, streams, environments of their own."""

from __future__ import annotations

import os
import re

import pytest
from git_repositories import commit_all, git, worktrees

import pytest_crucible

pytestmark = pytest.mark.slow  # each session starts a process that imports pytest and the suite

SCRIPT = """
    import os

    def answer(request):
        text = request.input if isinstance(request.input, str) else request.input[-1]["content"]
        with open("calls.txt", "a") as file:
            file.write(f"{request.arm} {request.sample} {text}\\n")
        if os.environ.get("FAILS") == request.sample:
            from pytest_crucible import BackendError
            raise BackendError("the model is down")
        return str(eval(text))
"""
TEST = """
    import app
    import pytest

    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        return await app.solve(sample, sampler)
"""
RIGHT = "async def solve(sample, sampler):\n    return await sampler.generate(sample.input)\n"
WRONG = RIGHT.replace("sample.input", 'sample.input + " + 1"')
ON_COMMIT = ("--crucible-adapter=scripted", "--compare=commit:HEAD")


@pytest.fixture
def project(suite):
    """A repository whose working tree has a bug."""
    suite.script(SCRIPT)
    suite.test(TEST)
    write_app(suite, RIGHT)
    commit_all(suite.path)
    write_app(suite, WRONG)
    return suite


def write_app(suite, source):
    (suite.path / "app.py").write_text(source)


def test_workers_run_the_same_commit_each_in_a_worktree_of_its_own(project):
    project.test(TEST.replace("test_sums", "test_more"), name="test_more")
    git(project.path, "add", "test_more.py")
    git(project.path, "commit", "--quiet", "--message=more", "test_more.py")
    result = project.run_n2(*ON_COMMIT)

    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 2, "failed": 2}
    assert result.stdout.str().count("missed, proven") == 2
    assert worktrees(project.path) == [str(project.path)]


def test_a_resumed_run_keeps_what_is_done_and_takes_the_same_commit_only(project, monkeypatch):
    monkeypatch.setenv("FAILS", "q07")
    project.run(*ON_COMMIT)
    monkeypatch.delenv("FAILS")
    project.forget_calls()
    result = project.run(*ON_COMMIT, "--crucible-resume")

    assert result.ret == 1
    assert {line.split()[1] for line in project.calls()} == {"q07"}
    write_app(project, f"{RIGHT}# A remark.\n")
    git(project.path, "commit", "--quiet", "--all", "--message=a remark")
    write_app(project, WRONG)
    project.forget_calls()
    project.run(*ON_COMMIT, "--crucible-resume")
    assert len({line.split()[1] for line in project.calls()}) == 20


def test_an_estimate_counts_the_calls_of_the_commits_function(project):
    result = project.run(*ON_COMMIT, "--crucible-estimate")

    assert result.ret == 0
    assert re.search(r"commit:HEAD.*20", result.stdout.str())
    assert project.calls() == []


def test_listing_tests_starts_no_process_and_leaves_no_worktree(project):
    write_app(project, f"raise SystemExit\n{RIGHT}")
    git(project.path, "commit", "--quiet", "--all", "--message=cannot be imported")
    write_app(project, WRONG)
    result = project.run(*ON_COMMIT, "--collect-only")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["  scripted at working tree (1 file changed) vs scripted at *"])


STREAMS = """
    async def solve(sample, sampler):
        assert sampler.arm.name in ("scripted", "commit:HEAD"), sampler.arm.name
        stream = sampler.stream(sample.input)
        pieces = [piece async for piece in stream]
        assert "".join(pieces) == stream.reply.text
        messages = [{"role": "user", "content": sample.input}]
        reply = await sampler.generate(messages, temperature=0.5)
        return reply if reply.text == stream.reply.text else None
"""


def test_streams_messages_and_parameters_reach_the_arm(project):
    project.pytester.makepyfile(app=STREAMS)
    git(project.path, "commit", "--quiet", "--all", "--message=streams")
    write_app(project, WRONG)
    result = project.run(*ON_COMMIT)

    result.stdout.fnmatch_lines(["exact_match: scripted vs commit:HEAD *-1.000*missed, proven*"])
    sent = [line.split(maxsplit=2)[2] for line in project.calls() if line.startswith("commit:HEAD q03")]
    assert sent == ["3 + 3", "3 + 3"]


def test_a_lost_reply_loses_the_sample_also_where_the_function_hides_it(project, monkeypatch):
    hides = "async def solve(sample, sampler):\n    try:\n        return await sampler.generate(sample.input)\n"
    write_app(project, f"{hides}    except Exception as error:\n        raise RuntimeError('hidden') from error\n")
    git(project.path, "commit", "--quiet", "--all", "--message=hides")
    write_app(project, RIGHT)
    monkeypatch.setenv("FAILS", "q07")
    result = project.run(*ON_COMMIT)

    result.stdout.fnmatch_lines(["test_sums: commit:HEAD: 1 sample lost (error)"])


def test_keys_do_not_reach_the_process_of_a_commit(project, monkeypatch):
    leaks = "import os\nasync def solve(sample, sampler):\n    assert 'SOME_API_KEY' not in os.environ\n"
    write_app(project, f"{leaks}    return await sampler.generate(sample.input)\n")
    git(project.path, "commit", "--quiet", "--all", "--message=leaks")
    write_app(project, RIGHT)
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    result = project.run(*ON_COMMIT)

    result.stdout.fnmatch_lines(["  not in the environment of commits: *SOME_API_KEY*", "exact_match: * +0.000 *"])


def test_a_joined_test_is_refused(project):
    project.test(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.ab_compare("right")
        def test_joined(number, crucible):
            crucible.score(right=True)
        """,
        name="test_joined",
    )

    project.refuses(
        project.run(*ON_COMMIT, "test_joined.py"),
        "*commit:HEAD needs a test that is marked crucible, and this is a joined test",
    )


def test_a_commit_is_no_candidate(project):
    project.refuses(
        project.run("--crucible-adapter=commit:HEAD", "--compare=scripted"),
        "commit:HEAD can only be a baseline of a pytest session: write --compare=commit:HEAD",
    )


def test_a_suite_in_a_subfolder_with_classes_and_parameters_is_found_there(project):
    folder = project.path / "evals"
    folder.mkdir()
    for name in ("app.py", "scripts.py", "crucible.toml", "questions.jsonl", "pytest.ini"):
        (project.path / name).rename(folder / name)
    (folder / "test_sums.py").write_text(
        "import app, pytest\n"
        "class TestAgent:\n"
        "    @pytest.mark.parametrize('extra', ['', ' + 0'])\n"
        "    @pytest.mark.crucible('questions.jsonl', metrics=['exact_match'])\n"
        "    @pytest.mark.ab_compare('exact_match')\n"
        "    async def test_sums(self, sample, sampler, extra):\n"
        "        return await sampler.generate(app.prompt(sample) + extra)\n"
    )
    (project.path / "test_sums.py").unlink()
    (folder / "app.py").write_text("def prompt(sample):\n    return sample.input\n")
    commit_all(project.path)
    (folder / "app.py").write_text("def prompt(sample):\n    return sample.input + ' + 1'\n")
    result = project.run(*ON_COMMIT, "--rootdir=evals", "-c", "evals/pytest.ini", "evals")

    assert result.parseoutcomes() == {"passed": 2, "failed": 2}
    result.stdout.fnmatch_lines(["*-1.000*missed, proven*"] * 2)


def test_a_commit_with_other_requirements_runs_in_an_environment_of_its_own(project, monkeypatch):
    # The new environment has no packages; these are the ones of the tests.
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(os.path.dirname(package.__path__[0]) for package in (pytest_crucible, pytest))
    )
    there = "import sys\nasync def solve(sample, sampler):\n    assert '.crucible/commits' in sys.prefix, sys.prefix\n"
    (project.path / "requirements.txt").write_text("# nothing\n")
    write_app(project, f"{there}    return await sampler.generate(sample.input)\n")
    commit_all(project.path)
    (project.path / "requirements.txt").write_text("httpx\n")
    write_app(project, RIGHT)
    result = project.run(*ON_COMMIT)

    result.stdout.fnmatch_lines(
        ["crucible: building the environment of commit:HEAD from its requirements.txt", "exact_match: * +0.000 *"]
    )
