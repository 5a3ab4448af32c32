"""A loaded machine: time without a processor is not a program's own, and a finished program is not late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_crucible.metrics.code_execution import run_program
from pytest_crucible.sandbox import Limits, Result, Sandbox, SandboxBroken, allow, close_shared, containment, withdraw

pytestmark = pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
WORK = "import time\nend = time.process_time() + {cpu_s}\nwhile time.process_time() < end: pass"


@pytest.fixture(autouse=True)
def _allowed() -> Iterator[None]:
    allow()
    yield
    withdraw()
    close_shared()


@pytest.fixture
def busy_processor() -> Iterator[None]:
    """One processor for this process and its children, shared with ten programs that use it."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(processors)])
    # Sessions of their own: between sessions the kernel may share a processor evenly, whatever is their number of programs.
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(10)]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait()
    os.sched_setaffinity(0, processors)


def run(program: str, limits: Limits) -> Result:
    with Sandbox(workers=1) as sandbox:
        return sandbox.run(program, limits=limits)


def test_waiting_for_a_processor_does_not_count(busy_processor):
    result = run(WORK.format(cpu_s=0.15), Limits(wall_s=0.5))

    assert result.status in ("passed", "starved")  # the latter where other programs use this processor, too
    assert result.seconds > 0.5


def test_sleeping_program_times_out_on_a_busy_machine(busy_processor):
    assert run("import time; time.sleep(60)", Limits(wall_s=0.5)).status == "timeout"


@pytest.mark.parametrize("thread", ["", "import threading; threading.Thread(target=time.sleep, args=(60,)).start()\n"])
def test_long_computation_times_out(thread):
    result = run(f"import time\n{thread}while True: pass", Limits(wall_s=0.3, cpu_s=30))

    assert result.status in ("timeout", "starved")


def test_starved_program_loses_its_sample(busy_processor):
    """The failure is not cached: a later try may find the machine less busy."""
    program = WORK.format(cpu_s=3)
    for _ in range(2):
        with pytest.raises(SandboxBroken, match="the program was not judged: the machine is too busy: not done after"):
            run_program(program, Limits(cpu_s=20, wall_s=0.1))
