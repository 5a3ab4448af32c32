"""What a computation becomes: a response, or a failure that says why and whose mistake it was."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

from pytest_crucible.embedded.server.archive import Missing
from pytest_crucible.embedded.server.futures import failure
from pytest_crucible.embedded.server.messages import Refusal, Response

T = TypeVar("T")

_USERS_ERRORS = (ValueError, Missing, FileExistsError, FileNotFoundError, ArithmeticError)


def answer_of(computed: asyncio.Future[T], told: Callable[[T], Response]) -> asyncio.Future[Response]:
    """A result that never raises: an exception becomes a failure that names it, and whose mistake it was."""
    answer: asyncio.Future[Response] = computed.get_loop().create_future()

    def settle(done: asyncio.Future[T]) -> None:
        if not (done.cancelled() or answer.done()):
            answer.set_result(_response(done, told))

    computed.add_done_callback(settle)
    answer.add_done_callback(lambda _: computed.cancel())
    return answer


def _response(done: asyncio.Future[T], told: Callable[[T], Response]) -> Response:
    try:
        return told(done.result())
    except Exception as error:
        return failed(error)


def failed(error: BaseException) -> Response:
    """The failure that an exception becomes."""
    if isinstance(error, Refusal):
        return failure(error.sentence, "user")
    if isinstance(error, _USERS_ERRORS):
        return failure(str(error), "user")
    traceback.print_exception(error, file=sys.stderr)
    return failure(f"{type(error).__name__}: {error}", "server")
