"""Model-written code runs when somebody has allowed it, on a machine that can keep it in, and else not."""

from __future__ import annotations

import json
import struct

import pytest

from pytest_crucible.sandbox import (
    Containment,
    Limits,
    NotAllowed,
    Sandbox,
    SandboxBroken,
    allow,
    confinement,
    is_allowed,
    pool,
    withdraw,
)
from pytest_crucible.sandbox.confinement import MACHINES
from pytest_crucible.sandbox.pool import is_yes


def test_code_does_not_run_without_consent():
    with Sandbox(workers=1) as sandbox, pytest.raises(NotAllowed) as caught:
        sandbox.run("pass")

    assert "--crucible-run-code or CRUCIBLE_RUN_CODE=1" in str(caught.value)


@pytest.mark.parametrize(("written", "yes"), [("1", True), ("yes", True), ("0", False), ("", False), ("No", False)])
def test_environment_variable_gives_consent(monkeypatch, written, yes):
    monkeypatch.setenv("CRUCIBLE_RUN_CODE", written)

    assert is_allowed() is is_yes(written) is yes


def test_consent_can_be_withdrawn():
    allow()
    allowed = is_allowed()
    withdraw()

    assert (allowed, is_allowed()) == (True, False)


def test_missing_confinement_is_named():
    assert Containment(files=True, calls=True).missing == ""
    assert Containment(files=False, calls=True).missing.startswith(
        "Landlock not available on this machine: needs Linux"
    )
    assert Containment(files=False, calls=False).missing.startswith("Landlock and seccomp filters not available")


@pytest.mark.parametrize("wrong", [{"cpu_s": 0}, {"wall_s": float("nan")}, {"memory_bytes": -1}, {"cpu_s": 1.5}])
def test_invalid_limits_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_dead_supervisor_is_replaced(monkeypatch):
    monkeypatch.setenv("CRUCIBLE_RUN_CODE", "1")
    start = pool._START
    with Sandbox(workers=1) as sandbox:
        monkeypatch.setattr(pool, "_START", "raise SystemExit  # {root}")
        with pytest.raises(SandboxBroken, match="supervisor ended"):
            sandbox.run("pass")
        monkeypatch.setattr(pool, "_START", start)
        after = sandbox.run("pass")

    assert after.status in ("passed", "refused")


# -- the filter, run here as the kernel runs it ---------------------------------------------------------------------


def run_filter(machine, number, arguments=(0,) * 6, *, audit=None, own=4242):
    """The answer of the filter to one call."""
    program = confinement.filter_program(machine, own)
    data = struct.pack("=IIQ6Q", number, audit or machine.audit, 0, *arguments)
    value, at = 0, 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x20:
            [value] = struct.unpack_from("=I", data, constant)
        elif code == 0x06:
            return constant
        elif code == 0x05:
            at += constant
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            at += if_true if holds else if_false


NO = confinement.refuse(1)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_filter_refuses_exactly_the_listed_calls(machine):
    answers = {number: run_filter(machine, number) for number in range(424)}
    refused = {number for number, answer in answers.items() if answer == NO}

    assert refused == {*machine.refused, machine.clone, machine.kill, machine.tgkill}
    assert {answers[number] for number in set(answers) - refused} == {confinement.ALLOW}
    assert {run_filter(machine, number) for number in range(424, 600)} == {confinement.refuse(38)}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_filter_checks_arguments(machine):
    def answer(number, *arguments):
        return run_filter(machine, number, (*arguments, *(0,) * (6 - len(arguments))))

    assert answer(machine.kill, 4242, 9) == answer(machine.tgkill, 4242, 4242, 9) == confinement.ALLOW
    assert answer(machine.kill, 2**32 - 1, 9) == answer(machine.kill, 0, 9) == answer(machine.tgkill, 1, 1, 9) == NO
    assert answer(machine.clone, 0x3D0F00) == confinement.ALLOW
    assert answer(machine.clone, 17) == NO
    assert answer(machine.prlimit, 0, 7) == answer(machine.prlimit, 4242, 7) == confinement.ALLOW
    assert answer(machine.prlimit, 1, 7) == NO
    assert [answer(machine.fcntl, 3, command) for command in (3, 8, 10, 15)] == [confinement.ALLOW, NO, NO, NO]
    assert [answer(machine.ioctl, 0, command) for command in (0x5401, 0x5412)] == [confinement.ALLOW, NO]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_calls_of_another_architecture_kill_the_process(machine):
    assert run_filter(machine, 1, audit=0x40000003) == confinement.KILL
    assert run_filter(machine, 1 | 0x40000000) == confinement.KILL


def test_filter_is_within_the_kernels_size():
    assert all(len(confinement.filter_program(machine, 1)) <= 4096 for machine in MACHINES.values())
    assert json.dumps([confinement.filter_program(machine, 1) for machine in MACHINES.values()])
