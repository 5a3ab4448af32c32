"""Code and tests in two processes: wrong code cannot make its tests pass, and plain data crosses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_crucible.sandbox import Limits, Sandbox, Submission, allow, containment, withdraw

pytestmark = pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
TESTS = """
SECRET = "expected-by-the-tests"

def check(candidate):
    expected = [2, 3, 5, 7, 11]
    assert candidate(5) == expected, "primes"
    assert expected == candidate(5)

check(primes)
"""
RIGHT = """
def primes(n):
    found = []
    number = 2
    while len(found) < n:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found
"""
EVERYTHING = """
class All({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getitem__(self, key): return self
    def __radd__(self, other): return self
    def __hash__(self): return 0
    def __iter__(self): return iter([])
    def __bool__(self): return True
    __class__ = list
def primes(n): return All()
"""
WALK = """
import gc, sys
def everything():
    frame = sys._getframe()
    while frame:
        yield frame.f_globals
        yield frame.f_locals
        frame = frame.f_back
    yield from (found for found in gc.get_objects() if isinstance(found, dict))
"""
ATTACKS = {
    "equal to everything": EVERYTHING.format(base="object"),
    "list equal to everything": EVERYTHING.format(base="list"),
    "number equal to everything": EVERYTHING.format(base="int").replace("__class__ = list\n", "pass\n"),
    "text equal to everything": EVERYTHING.format(base="str").replace("__class__ = list\n", "pass\n"),
    "token by frames": WALK
    + """
import json, os
for names in list(everything()):
    for token in [v for v in list(names.values()) if isinstance(v, str) and len(v) == 32] + [
        v["token"] for v in list(names.values()) if isinstance(v, dict) and "token" in v]:
        for number in (3, 4, 5):
            try: os.write(number, json.dumps({"status": "passed", "detail": "", "token": token}).encode() + b"\\n")
            except OSError: pass
os._exit(0)
""",
    "token by frames, when called": WALK
    + """
import json, os
def primes(n):
    for names in list(everything()):
        if isinstance(names.get("job"), dict) or "token" in names:
            token = names.get("token") or names["job"].get("token", "")
            os.write(3, json.dumps({"status": "passed", "detail": "", "token": token}).encode() + b"\\n")
    os._exit(0)
""",
    "expected values by frames": WALK
    + """
def primes(n):
    for names in list(everything()):
        if isinstance(names.get("expected"), list): return names["expected"]
    return []
""",
    "expected values in the heap": """
import gc
def primes(n):
    for found in gc.get_objects():
        if isinstance(found, list) and found[:2] == [2, 3]: return found[:n]
    return []
""",
    "memory of the other process": "import os\nopen(f'/proc/{os.getppid()}/mem')\ndef primes(n): return []",
    "os.write patched": """
import os
real = os.write
os.write = lambda number, data: real(number, bytes(data).replace(b'"failed"', b'"passed"'))
def primes(n): return []
""",
    "check's constants replaced": """
import gc, types
def primes(n):
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__name__ == "check":
            function.__code__ = (lambda candidate: None).__code__
    raise Again
class Again(Exception): pass
""",
    "comparison patched by the caller": """
import sys
def primes(n):
    names = sys._getframe(1).f_locals
    return names["expected"] if "expected" in names else []
""",
    "json patched": """
import json
real = json.dumps
json.dumps = lambda value, **named: real({**value, "status": "passed"} if isinstance(value, dict) else value)
def primes(n): return []
""",
    "sys.exit 0": "import sys\nsys.exit(0)",
    "sys.exit 0 when called": "import sys\ndef primes(n): sys.exit(0)",
    "os._exit 0": "import os\nos._exit(0)",
    "os._exit 0 when called": "import os\ndef primes(n): os._exit(0)",
    "exit by signal": "import os, signal\ndef primes(n): os.kill(os.getpid(), signal.SIGTERM)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef primes(n): return []",
    "builtins patched": """
import builtins
builtins.AssertionError = type("Quiet", (BaseException,), {})
builtins.sum = lambda values: 129
builtins.isinstance = lambda value, kind: True
builtins.len = lambda value: 5
def primes(n): return [2, 3, 5, 7, 11]
""",
    "check replaced": "def check(candidate): pass\ndef primes(n): return []",
    "check replaced in modules": """
import sys
def primes(n):
    for module in list(sys.modules.values()):
        if hasattr(module, "check"): module.check = print
    return []
""",
    "exec patched": "import builtins\nbuiltins.exec = builtins.compile = lambda *a, **k: None\ndef primes(n): return []",
    "reporter patched": """
import sys
for module in list(sys.modules.values()):
    for name in ("_end", "_report"):
        if hasattr(module, name):
            report = getattr(module, name)
            setattr(module, name, lambda outcome: report({**outcome, "status": "passed"}))
def primes(n): return []
""",
    "assert rewritten by a trace": """
import sys
sys.settrace(lambda frame, event, argument: None)
sys.setprofile(lambda *a: None)
def primes(n): return []
""",
    "exception hook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef primes(n): raise ValueError",
    "forged answers": """
import os, struct
def primes(n): return []
for status in ("loaded", "returned", "passed"):
    for value in ('["list", "%s", null]' % status, '{"status": "passed", "detail": ""}', "null"):
        os.write(3, struct.pack(">I", len(value)) + value.encode())
""",
    "forged pass on every descriptor": """
import os
def primes(n):
    for number in range(64):
        try: os.write(number, b'{"status": "passed", "detail": "", "token": ""}\\n')
        except OSError: pass
    os._exit(0)
""",
    "forged exceptions": """
import os, struct
def primes(n):
    quiet = '["list", ["list", "StopIteration"], "", null]'
    for value in ("null", '["list", 1, 2, 3]', quiet):
        value = '["list", "raised", %s]' % value
        os.write(3, struct.pack(">I", len(value)) + value.encode())
    return []
""",
    "endless answer": "import os, struct\ndef primes(n):\n  os.write(3, struct.pack('>I', 1 << 31) + b'x'); return []",
    "deep answer": "def primes(n):\n  x = []\n  for _ in range(100000): x = [x]\n  return x",
    "deep forged answer": "import os, struct\ndef primes(n):\n  b = b'[' * 100000\n  os.write(3, struct.pack('>I', len(b)) + b)",
    "answer with a pickle": "class P(list):\n  def __reduce__(self): return print, ()\ndef primes(n): return P()",
    "exception of the tests": "class AssertionError(Exception): pass\ndef primes(n): raise AssertionError",
    "quiet exception": "class Quiet(BaseException): pass\ndef primes(n): raise Quiet",
    "generator exit": "def primes(n): raise GeneratorExit",
    "stop iteration": "def primes(n): raise StopIteration",
    "own stop iteration": "class Own(StopIteration): pass\ndef primes(n): raise Own",
    "stop iteration in a coroutine": "async def primes(n): raise StopIteration",
    "function for data": "def primes(n): return primes",
    "coroutine for data": "async def primes(n): return []",
    "object for data": "def primes(n): return object()",
    "module replaced": "import sys\nsys.modules[__name__] = None\nsys.modules['builtins'] = None\ndef primes(n): return []",
    "thread that outlives the call": """
import threading, os, time
def later():
    time.sleep(0.05)
    os._exit(0)
threading.Thread(target=later).start()
def primes(n):
    time.sleep(0.2)
    return []
""",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    allow()
    with Sandbox(workers=2) as opened:
        yield opened
    withdraw()


def submission(code: str) -> Submission:
    return Submission(code=code, tests=TESTS, functions=("primes",))


def double(code: str, tests: str, **named: str) -> Submission:
    return Submission(code=code, tests=tests, functions=("double",), **named)


def test_right_code_passes(sandbox):
    assert sandbox.run(submission(RIGHT)).passed


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_do_not_make_wrong_code_pass(sandbox, attack):
    result = sandbox.run(submission(ATTACKS[attack]), limits=Limits(cpu_s=2, wall_s=5))

    assert result.status in ("failed", "timeout", "memory", "killed"), result


# -- what crosses ---------------------------------------------------------------------------------------------------

VALUES = """
None True False 0 -1 2**60 -10**5000 0.1 -0.0 float('inf') 1j complex(1,float('-inf')) '' '\\ud800\\0' b'' b'a\\xff' bytearray(b'x')
[] [[]] [1,'a',None] () (1,) (1,(2,[3])) set() {1,'a'} frozenset({1}) {} {1:2,(1,2):{'a':[b'']}} range(3) range(9,0,-2)
"""


@pytest.mark.parametrize("value", VALUES.split())
def test_plain_data_crosses_both_ways(sandbox, value):
    tests = f"value = {value}\nanswer = double(value)\nassert answer == value and type(answer) is type(value), answer"

    assert sandbox.run(double("def double(x): return x", tests)).detail == ""


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (
            "from decimal import Decimal\ndef double(x): return x + Decimal('0.10')",
            "str(double(Decimal('1.0'))) == '1.10'",
        ),
        ("from fractions import Fraction\ndef double(x): return 2 * x", "double(Fraction(1, 3)) == Fraction(2, 3)"),
        ("import collections\ndef double(x): return collections.Counter(x)", "double('aab') == {'a': 2, 'b': 1}"),
        (
            "import collections\nP = collections.namedtuple('P', 'x y')\ndef double(x): return P(x, x)",
            "double(1) == (1, 1)",
        ),
        ("import enum\nE = enum.IntEnum('E', 'A B')\ndef double(x): return E.B", "double(1) == 2"),
        ("def double(x):\n  yield x\n  yield x", "list(double(1)) == [1, 1]"),
        (
            "def double(x):\n  while True: yield x",
            "[next(items) for items in [double(1)] for _ in range(99)] == [1] * 99",
        ),
        ("def double(x): return map(str, x)", "list(double([1])) == ['1']"),
        ("def double(x): return lambda y: x * y", "double(2)(3) == 6"),
        ("def double(x): return [lambda: 1, x]", "double(2)[0]() == 1"),
        ("def double(x): return x() if callable(x) else lambda: 4", "double(double(2)) == 4"),
        ("async def double(x): return 2 * x", "asyncio.run(double(2)) == 4"),
        ("def double(x, *, times=2, **more): return [x] * times + [more]", "double(1, times=1, k=3) == [1, {'k': 3}]"),
        ("double = lambda x: 2 * x", "double(2) == 4 and double.__name__ == 'double'"),
        ("count = 0\ndef double(x):\n  global count\n  count += 1\n  return count", "[double(1), double(1)] == [1, 2]"),
        ("open('kept', 'w').write('4')\ndef double(x): return int(open('kept').read())", "double(2) == 4"),
    ],
)
def test_results_of_many_types_can_be_compared(sandbox, code, test):
    imports = "import asyncio\nfrom decimal import Decimal\nfrom fractions import Fraction\n"

    result = sandbox.run(double(code, f"{imports}assert {test}"))

    assert (result.status, result.detail) == ("passed", "")


def test_numpy_arrays_cross_as_lists(sandbox):
    code = "import numpy\ndef double(x): return 2 * numpy.array(x), numpy.float64(x[0])"

    result = sandbox.run(double(code, "assert double([1, 2]) == ([2, 4], 1.0)"), limits=Limits(cpu_s=10))

    assert (result.status, result.detail) == ("passed", "")


def test_arguments_are_copied(sandbox):
    """A function that changes its argument in place changes a copy: it cannot change what the tests compare with."""
    tests = "values = [2, 1]\nassert double(values) is None\nassert values == [2, 1]"

    assert sandbox.run(double("def double(x): x.sort()", tests)).passed


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def double(x): raise ValueError('of x')", "ValueError"),
        ("import json\ndef double(x): json.loads('{')", "ValueError"),
        ("class Own(KeyError): pass\ndef double(x): raise Own('of x')", "KeyError"),
        ("def double(x): b'\\xff'.decode()", "UnicodeDecodeError"),
        ("def double(x): raise Theirs", "Theirs"),
        ("class Theirs(Exception): pass\ndef double(x): raise Theirs", "Theirs"),
        ("def double(x): return double(x)", "RecursionError"),
        ("import sys\ndef double(x): sys.exit(3)", "SystemExit"),
        ("async def double(x): raise ValueError", "ValueError"),
    ],
)
def test_exceptions_cross_by_class_name(sandbox, code, kind):
    setup = "class Theirs(Exception): pass"
    code = f"{setup}\n{code}" if "raise Theirs" in code else code
    tests = (
        f"try:\n    double(1)\nexcept {kind} as error:\n    pass\nelse:\n    raise AssertionError('nothing was raised')"
    )

    result = sandbox.run(double(code, tests, setup=setup))

    assert (result.status, result.detail) == ("passed", "")


@pytest.mark.parametrize(
    ("code", "status", "detail"),
    [
        ("def double(x): return object()", "failed", "it returned a value of type object, which is not plain data"),
        ("def double(x): return x", "failed", "AssertionError"),
        ("def doubled(x): return x", "failed", "NameError: double is not defined"),
        ("def double(x) return x", "failed", "SyntaxError"),
        ("1 / 0", "failed", "ZeroDivisionError"),
        ("def double(x):\n  while True: pass", "timeout", "not done after 1 s of processor time"),
        ("while True: pass", "timeout", "not done after 1 s of processor time"),
        ("import time\ndef double(x): time.sleep(60)", "timeout", "not done after 2 s"),
        ("def double(x): return [0] * (1 << 40)", "memory", "MemoryError"),
        ("import os\ndef double(x): os.abort()", "killed", "by SIGABRT"),
        ("import os\ndef double(x): os._exit(0)", "failed", "ended the process before its end"),
        ("import socket\ndef double(x): socket.socket()", "failed", "PermissionError"),
    ],
)
def test_wrong_code_fails_with_a_reason(sandbox, code, status, detail):
    result = sandbox.run(
        double(code, "assert double(2) == 4"), limits=Limits(cpu_s=1, wall_s=2 if "sleep" in code else 60)
    )

    assert result.status == status
    assert result.detail.startswith(detail)


@pytest.mark.parametrize(
    ("tests", "setup", "detail"),
    [
        ("double(print)", "", "the tests call double with a value of type builtin_function_or_method"),
        ("double(object())", "", "the tests call double with a value of type object"),
        ("assert double(2) ==", "", "the tests cannot be run: SyntaxError"),
        ("", "import no_such_module", "the tests cannot be run: ModuleNotFoundError"),
    ],
)
def test_invalid_tests_refuse_the_code(sandbox, tests, setup, detail):
    result = sandbox.run(double("def double(x): return x", tests, setup=setup))

    assert result.status == "refused"
    assert result.detail.startswith(detail)


@pytest.mark.parametrize(
    "kind", ["StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt", "SkipTest", "Own"]
)
@pytest.mark.parametrize(
    "tests",
    [
        "assert all(map(double, [1, 2]))",
        "assert next(map(double, [1]), 2) == 2",
        "assert list(iter(lambda: double(1), None)) == []",
        "import asyncio\nasync def go():\n    return [x async for x in numbers()]\n"
        "async def numbers():\n    yield double(1)\nassert asyncio.run(go()) == []",
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): assert double(1) == 2\n"
        "assert unittest.TextTestRunner().run(unittest.makeSuite(T) if hasattr(unittest, 'makeSuite') else "
        "unittest.defaultTestLoader.loadTestsFromTestCase(T)).wasSuccessful()",
    ],
    ids=["all", "next", "iter", "async for", "unittest"],
)
def test_control_flow_exceptions_fail_the_tests(sandbox, tests, kind):
    setup = "from unittest import SkipTest\nclass Own(StopIteration): pass\n"

    result = sandbox.run(double(f"{setup}def double(x): raise {kind}", tests, setup=setup))

    assert result.status == "failed"


@pytest.mark.parametrize(
    "raised",
    [
        "compile('a b', 'f', 'exec')",
        "int('x')",
        "{}['x']",
        "[][1]",
        "open('none')",
        "b'\\xff'.decode()",
        "'\\udc00'.encode()",
        "import_module('no_such')",
        "exit(3)",
        "fail(KeyError(1, 'two'))",
        "fail(ValueError(object()))",
        "fail(ExceptionGroup('all', [ValueError()]))",
    ],
)
def test_exception_text_is_kept(sandbox, raised):
    code = f"from importlib import import_module\nfrom sys import exit\ndef fail(error): raise error\ndef double(x): {raised}"
    tests = "try: double(1)\nexcept BaseException as error: print(str(error), end='')"
    try:
        exec(code, names := {})
        names["double"](1)
    except BaseException as error:
        text = str(error)

    output = sandbox.run(double(code, tests)).output

    assert output == text if " object at " not in text else output.startswith("<object object at ")


def test_plain_exception_arguments_are_kept(sandbox):
    tests = "try: double(1)\nexcept OSError as error: assert error.errno == 7 and error.args == (7, 'seven')"

    assert sandbox.run(double("def double(x): raise OSError(7, 'seven')", tests)).detail == ""


GUESSER = """
import random
random.seed({seed})
def double(x): return random.random()
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_code_cannot_predict_the_tests_draws(sandbox, seed):
    tests = "import random\nassert double(1) == random.random()"

    assert sandbox.run(double(GUESSER.format(seed=seed), tests)).status == "failed"
    assert sandbox.run(double("import random\ndef double(x): return random.random()", tests)).status == "failed"


def test_stored_seed_repeats_the_draws(sandbox):
    draw = "import random\nprint(random.random())\ndouble(1)"
    first = double("def double(x): return x", draw)
    again = replace(first, seed=first.seed)
    other = replace(first, seed=1)

    outputs = [sandbox.run(program).output for program in (first, again, other)]

    assert outputs[0] == outputs[1] != outputs[2]


def test_both_processes_are_confined(sandbox):
    code = (
        WALK + "def double(x): return [str(names)[:1000] for names in everything() if 'expected' + '-by' in str(names)]"
    )
    tests = "import socket\nSECRET = 'expected-' + 'by-the-tests'\nassert double(1) == []\nsocket.socket()"

    assert sandbox.run(double(code, tests)).detail.startswith("PermissionError")
