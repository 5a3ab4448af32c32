"""What a transaction changes, for features that write rows of their own in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    from pytest_crucible.store.database import Connection


@dataclass(frozen=True, slots=True)
class RowChange:
    """Rows that a transaction adds to a table, or removes from it. A changed row is removed and added."""

    table: Table
    rows: int
    columns: Mapping[str, Sequence[Any]]
    """By name, as they are stored. A missing column is NULL in all of the rows."""
    is_removed: bool = False


class CommitListener(Protocol):
    """Receives the changes of each transaction before it is committed."""

    def committing(self, connection: Connection, changes: Sequence[RowChange]) -> AbstractContextManager[None]:
        """Enter what belongs to these changes, in their transaction, which is committed within the context."""
        ...

    def forget(self, connection: Connection, table: Table, key: str) -> None:
        """Remove what belongs to a run, a dataset or a variant that is deleted as a whole; `table` has them by this key."""
        ...


@contextmanager
def commit_together(
    connection: Connection, listeners: Sequence[CommitListener], changes: Sequence[RowChange]
) -> Iterator[None]:
    """Commit, within this context, what listeners enter for some changes."""
    with ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener.committing(connection, changes))
        yield


def change_of(table: Table, rows: Sequence[Sequence[Any]], *, is_removed: bool = False) -> RowChange:
    """Return the change that adds or removes whole rows of a table."""
    columns = dict(zip(table.names, zip(*rows, strict=True), strict=True))
    return RowChange(table, len(rows), columns, is_removed)
