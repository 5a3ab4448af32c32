#!/usr/bin/env bash
# What a plugin has put into `item.stash` in an attempt is still there when pytest-rerunfailures runs the item again.
#
# Expected: a rerun begins as the item did, with nothing of the first attempt. A plugin that marks an item as failed in the stash finds
# that mark in the attempt that passes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pytest==9.0.2 pytest-rerunfailures==16.1
cd "$folder"
cat >conftest.py <<'PYTHON'
import pytest

ATTEMPTS = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    item.stash[ATTEMPTS] = item.stash.get(ATTEMPTS, 0) + 1
    print(f"attempt with stash value {item.stash[ATTEMPTS]}")
    return (yield)
PYTHON
cat >test_flaky.py <<'PYTHON'
attempts = []


def test_flaky():
    attempts.append(1)
    assert len(attempts) == 2
PYTHON
"$folder/venv/bin/pip" list 2>/dev/null | grep -i '^pytest'
output=$("$folder/venv/bin/python" -m pytest -q -s --reruns 1 -p no:cacheprovider)
printf '%s\n' "$output"
grep -q "attempt with stash value 1" <<<"$output"
grep -q "attempt with stash value 2" <<<"$output" # a fresh item would have 1 again
echo "seen: the second attempt finds the stash of the first"
