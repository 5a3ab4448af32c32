"""Lets all SQLite databases of a process share their compiled statements."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache


def share_compiled_statements() -> None:
    """Compile each statement once a process. SQLAlchemy compiles it once an engine, which takes each session 30 ms."""
    statements: LRUCache[Any] = LRUCache(5000)
    initialize = Engine.__init__

    def initialize_sharing(engine: Engine, *arguments: Any, **options: Any) -> None:
        initialize(engine, *arguments, **options)
        if isinstance(engine.dialect, SQLiteDialect_pysqlite):
            engine._compiled_cache = statements

    Engine.__init__ = initialize_sharing  # type: ignore[method-assign]
    # A compiled statement is found by the dialect that it was compiled for. All are for the same version of SQLite.
    SQLiteDialect_pysqlite.__eq__ = lambda one, other: type(one) is type(other)  # type: ignore[method-assign]
    SQLiteDialect_pysqlite.__hash__ = lambda one: hash(type(one))  # type: ignore[method-assign]
