"""A session that is cancelled ends in order, whenever the signal arrives: a real process, and real signals."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

SCRIPTS = """
    def answer(request):
        return request.input
"""
CONFTEST = """
    import os, time

    SLOW = os.environ.get("SLOW_AT", "")
    if "AGAIN_S" in os.environ:
        from pytest_crucible.session import interruptions
        interruptions.AGAIN_S = float(os.environ["AGAIN_S"])

    def wait(name):
        if SLOW == name:
            open("waiting", "w").close()
            time.sleep(float(os.environ.get("SLOW_S", 2)))

    def pytest_crucible_verdict(config, verdict):
        wait("verdict")

    def pytest_crucible_concluded(config, run):
        wait("reports")

    def pytest_keyboard_interrupt():
        wait("interrupt")
"""
TEST = """
    import asyncio, os, time
    import pytest

    class Left:
        def __del__(self):
            open("waiting", "w").close()
            time.sleep(2)

    @pytest.fixture
    def prepared():
        if os.environ.get("SLOW_AT") == "finalizer":
            Left()
        if os.environ.get("SLOW_AT") == "fixture":
            open("waiting", "w").close()
            time.sleep(60)

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.0")
    async def test_sums(sample, sampler, prepared):
        if int(sample.id[1:]) >= int(os.environ.get("HANGS_FROM", 10**6)):
            open("waiting", "w").close()
            time.sleep(60) if "BLOCKS" in os.environ else await asyncio.sleep(60)
        return await sampler.generate(sample.input)

    def test_after():
        assert os.environ.get("SLOW_AT") in ("", "verdict", "reports"), "this test must not run"
"""
# The leader of a session whose terminal is its own: the kernel sends it SIGHUP when the terminal is closed.
# A signal that is ignored stays ignored in child processes, and the tests themselves may run under nohup.
LEADS_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
CANCELS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
BEFORE, FINALIZER = {"SLOW_AT": "fixture"}, {"SLOW_AT": "finalizer"}
AMID = {"HANGS_FROM": "12"}
VERDICT, REPORTS = {"SLOW_AT": "verdict"}, {"SLOW_AT": "reports"}


@pytest.fixture
def cancel(suite):
    """Runs the suite in a process, and sends it signals when it has come to a moment, with seconds between them.

    For the signal None, its terminal is closed.
    """
    suite.script(SCRIPTS)
    suite.pytester.makeconftest(CONFTEST)
    suite.test(TEST)

    def cancel(moment, *signals, pause_s=0.1, arguments=(), group=False):
        command = ["-p", "no:asyncio", "-p", "no:hypothesispytest"]
        command += ["--crucible-adapter=scripted", "--crucible-concurrency=4", "--crucible-report=run.md", *arguments]
        screen, environment = suite.path / "shown.txt", {**os.environ, "SLOW_AT": "", **moment}
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(screen.open("wb"))
            if signals == (None,):
                terminal, output = pty.openpty()
                process = subprocess.Popen(
                    [sys.executable, "-c", LEADS_TERMINAL, sys.executable, "-m", "pytest", *command],
                    stdin=output,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=environment,
                    cwd=suite.path,
                )
                os.close(output)
            else:
                streams = {"stdout": file.fileno(), "stderr": file.fileno()}
                process = suite.popen(*command, start_new_session=True, env=environment, **streams)
        until = time.monotonic() + 60
        while not (suite.path / "waiting").exists() and time.monotonic() < until:
            time.sleep(0.02)
        # Replies are stored twice a second.
        time.sleep(0.7)
        began = time.monotonic()
        for k, number in enumerate(signals):
            time.sleep(pause_s * bool(k))
            with contextlib.suppress(ProcessLookupError):
                if number is None:
                    os.close(terminal)
                else:
                    (os.killpg if group else os.kill)(process.pid, number)
        process.wait(timeout=60)
        return process.returncode, screen.read_text(), time.monotonic() - began

    return cancel


def run_status(suite):
    with contextlib.closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        return connection.execute("select status, exit_status from runs").fetchone()


def in_order(status, output):
    assert status == pytest.ExitCode.INTERRUPTED, output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    assert "Exception ignored" not in output


@pytest.mark.parametrize("number", CANCELS)
def test_amid_replies_a_signal_ends_like_ctrl_c(suite, cancel, number):
    status, output, seconds = cancel(AMID, number)

    in_order(status, output)
    assert seconds < 30
    assert "sampling was interrupted; continue with --crucible-resume" in output
    assert re.search(
        r"!!! KeyboardInterrupt" + (f": {number.name}" if number != signal.SIGINT else "") + " !!!", output
    )
    assert run_status(suite) == ("interrupted", 2)
    assert "exact_match" in (suite.path / "run.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_before_the_first_reply_ends_like_ctrl_c(suite, cancel, number):
    status, output, _ = cancel(BEFORE, number)

    in_order(status, output)
    assert "KeyboardInterrupt" in output
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
def test_a_signal_in_a_finalizer_needs_no_second_one(suite, cancel):
    status, output, seconds = cancel({**FINALIZER, "AGAIN_S": "60"}, signal.SIGTERM)

    in_order(status, output)
    assert seconds < 30


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("arguments", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_signal_in_a_finalizer_is_neither_lost_nor_printed(suite, cancel, number, arguments):
    status, output, _ = cancel(FINALIZER, number, arguments=arguments, group=True)

    in_order(status, output)
    assert "arrived after the last reply" not in output
    assert "PytestUnraisable" not in output
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize("moment", [VERDICT, REPORTS], ids=["verdicts", "reports"])
@pytest.mark.parametrize("arguments", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_after_the_last_reply_verdicts_and_reports_are_completed(suite, cancel, moment, number, arguments):
    status, output, _ = cancel(moment, number, arguments=arguments, group=True)

    in_order(status, output)
    assert "3 passed" in output
    assert "KeyboardInterrupt" in output or f"{number.name} arrived after the last reply" in output
    assert run_status(suite)[0] == "finished"
    assert "exact_match" in (suite.path / "run.md").read_text()


def test_a_second_ctrl_c_while_pytest_reports_the_first_leaves_no_traceback(cancel):
    moment = {**AMID, "SLOW_AT": "interrupt", "SLOW_S": "6"}

    status, output, _ = cancel(moment, signal.SIGINT, signal.SIGINT, pause_s=3)

    in_order(status, output)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [VERDICT, REPORTS], ids=["verdicts", "reports"])
def test_a_second_ctrl_c_ends_at_once(cancel, moment):
    status, output, seconds = cancel({**moment, "SLOW_S": "60"}, signal.SIGINT, signal.SIGINT, pause_s=1.3)

    in_order(status, output)
    assert seconds < 20


@pytest.mark.slow
def test_a_test_that_blocks_the_event_loop_is_abandoned(suite, cancel):
    status, output, _ = cancel({**AMID, "BLOCKS": "yes"}, signal.SIGINT)

    in_order(status, output)
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
def test_a_signal_sent_twice_within_a_moment_counts_once(suite, cancel):
    status, output, _ = cancel(AMID, signal.SIGTERM, signal.SIGTERM, pause_s=0.05)

    in_order(status, output)
    assert "continue with --crucible-resume" in output
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", CANCELS)
@pytest.mark.parametrize("group", [True, False], ids=["group", "controller"])
def test_workers_are_cancelled_with_their_controller(suite, cancel, number, group):
    status, output, seconds = cancel(AMID, number, arguments=("-n2",), group=group)

    in_order(status, output)
    assert seconds < 40
    assert "node down" not in output
    # The worker's last rows are waited for.
    assert "test_sums: scripted: 8 samples lost (not run)" in output
    assert "sampling was interrupted; continue with --crucible-resume" in output
    assert run_status(suite) == ("interrupted", 2)
    assert "exact_match" in (suite.path / "run.md").read_text()


@pytest.mark.slow
def test_a_controller_that_has_received_no_report_is_cancelled_too(suite, cancel):
    status, output, _ = cancel(BEFORE, signal.SIGTERM, arguments=("-n2",))

    in_order(status, output)
    assert "!!! KeyboardInterrupt: SIGTERM !!!" in output
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
def test_a_worker_that_does_not_end_is_not_waited_for_after_a_second_ctrl_c(suite, cancel):
    status, output, seconds = cancel(
        {**AMID, "BLOCKS": "yes"}, signal.SIGINT, signal.SIGINT, pause_s=1.3, arguments=("-n2",)
    )

    in_order(status, output)
    assert seconds < 20
    assert run_status(suite) == ("interrupted", 2)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_closed_terminal_ends_like_ctrl_c(suite, cancel, arguments):
    status, _, _ = cancel(AMID, None, arguments=arguments)

    assert status == pytest.ExitCode.INTERRUPTED
    assert run_status(suite) == ("interrupted", 2)
    assert "exact_match" in (suite.path / "run.md").read_text()


@pytest.mark.slow
def test_workers_that_share_scopes_print_nothing_of_a_ctrl_c(suite, cancel):
    source = (suite.path / "test_sums.py").read_text()
    for k in range(3):
        suite.test(source, name=f"test_more_{k}")
    status, output, _ = cancel(AMID, signal.SIGINT, arguments=("-n4", "--dist", "loadscope"), group=True)

    in_order(status, output)


@pytest.mark.slow
def test_a_signal_that_is_ignored_stays_ignored(suite):
    suite.pytester.makepyfile(
        run="""
        import signal, sys, pytest
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, print)

        class Look:
            def pytest_crucible_concluded(self, run):
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
                assert signal.getsignal(signal.SIGTERM) is print

        status = pytest.main(["-q", "-p", "no:asyncio", "--crucible-adapter=v2", "test_sums.py"], plugins=[Look()])
        print(int(status), signal.getsignal(signal.SIGTERM) is print)
        """
    )
    result = suite.pytester.run(sys.executable, "run.py")

    assert result.outlines[-1] == "0 True"
