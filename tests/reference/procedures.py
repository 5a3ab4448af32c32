"""The reference procedures by name: (input, options) of a case -> the same keys that the case expects.

Each `answers_<room>.py` beside this file answers for one room of `pytest_crucible.stats`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
if str(HERE) not in sys.path:  # this file is also loaded by its path alone
    sys.path.insert(0, str(HERE))

from answering import Answer, Case  # noqa: E402

PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {}
for _path in sorted(HERE.glob("answers_*.py")):
    PROCEDURES |= import_module(_path.stem).PROCEDURES
