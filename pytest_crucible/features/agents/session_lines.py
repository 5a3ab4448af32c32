"""Lines that agents add to the end of a session."""

from __future__ import annotations

import pytest

from pytest_crucible.session.session import session_of


def show_line(config: pytest.Config, line: str) -> None:
    """Show a line at the end of the session, once."""
    session = session_of(config)
    if session is not None and line not in session.messages.lines:
        session.messages.lines.append(line)
