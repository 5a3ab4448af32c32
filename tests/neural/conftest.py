"""Modules that suites in this process must not import again: they refuse to be loaded twice."""

from __future__ import annotations

import jsonschema  # noqa: F401
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401

import pytest_crucible.report.json
import pytest_crucible.runs.evaluate
import pytest_crucible.session.finish
import pytest_crucible.session.session  # noqa: F401
