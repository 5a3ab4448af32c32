"""Data checks: requirements on a dataset, checked before anything is sent.

Each expectation is a function that returns a `Check`, for `@pytest.mark.data_check(...)` and `check_samples`. All of them take
`severity="error"` or `"warn"`; those on single values also take `mostly`, the least share of values that have to meet them.
"""

from __future__ import annotations

from typing import Any

from pytest_crucible.lazy_names import lazy_names

# A suite that imports one check does not load scipy for the others.
_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name.startswith("expect_") and name not in __all__:
        from pytest_crucible.records.errors import closest_name

        near = closest_name(name, __all__)
        hint = f"did you mean {near}?" if near else "the reference of data checks lists all"
        # An AttributeError would become "cannot import name", without the suggestion.
        raise ImportError(f"{name} is not a known check; {hint}")
    return _load(name)
