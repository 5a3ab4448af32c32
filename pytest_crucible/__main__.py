"""`python -m pytest_crucible`: the same as `crucible`."""

from __future__ import annotations

import sys

from pytest_crucible.cli import main

if __name__ == "__main__":
    sys.exit(main())
