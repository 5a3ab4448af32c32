"""Loading of this package in a session: as other modules, whatever pytest does with plugins."""

from __future__ import annotations

import pytest

LOADERS = """
    import sys

    def test_loaders():
        loaders = {
            name: type(module.__loader__).__name__
            for name, module in sys.modules.items()
            if name.startswith("pytest_crucible.")
        }
        assert "pytest_crucible.session.session" in loaders
        assert set(loaders.values()) == {"SourceFileLoader"}
"""


@pytest.mark.slow
def test_pytests_rewriting_compiles_no_module_again(suite):
    suite.test(LOADERS, name="test_z_loaders")

    result = suite.pytester.runpytest_subprocess("--crucible-adapter=v2", "-v", "test_sums.py", "test_z_loaders.py")

    result.stdout.fnmatch_lines("test_z_loaders.py::test_loaders PASSED*")


def test_asserts_of_test_files_are_rewritten_still(pytester):
    pytester.makepyfile("def test_sum():\n    two = 2\n    assert two + 2 == 5\n")

    result = pytester.runpytest_subprocess()

    result.stdout.fnmatch_lines("*assert (2 + 2) == 5*")
