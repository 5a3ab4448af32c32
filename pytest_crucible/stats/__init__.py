"""Statistics: functions from numbers to numbers. They read no files, print nothing, and import nothing else of this package.

Start with `compare` and `estimate`, which choose the method from the table in `choose`. Every method can also be called by its own
name; `__init__.pyi` lists the names. A name is imported on first use, so importing this package imports neither numpy nor scipy.
"""

from pytest_crucible.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
