"""Results of computations: a response, or a failure with its reason and category."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

from pytest_crucible.local_model.server.archive import MissingCheckpoint
from pytest_crucible.local_model.server.futures import failure_response
from pytest_crucible.local_model.server.messages import Refusal, Response

T = TypeVar("T")

_USERS_ERRORS = (ValueError, MissingCheckpoint, FileExistsError, FileNotFoundError, ArithmeticError)


def to_response(computed: asyncio.Future[T], make_response: Callable[[T], Response]) -> asyncio.Future[Response]:
    """Return a future that never raises: an exception becomes a failure with its message and category."""
    answer: asyncio.Future[Response] = computed.get_loop().create_future()

    def settle(done: asyncio.Future[T]) -> None:
        if not (done.cancelled() or answer.done()):
            answer.set_result(_response(done, make_response))

    computed.add_done_callback(settle)
    # A client that cancels spares the computation, or what is left of a reply.
    answer.add_done_callback(lambda _: computed.cancel())
    return answer


def _response(done: asyncio.Future[T], make_response: Callable[[T], Response]) -> Response:
    try:
        return make_response(done.result())
    except Exception as error:
        return error_response(error)


def error_response(error: BaseException) -> Response:
    """Return the failure response for an exception."""
    if isinstance(error, Refusal):
        return failure_response(error.sentence, "user")
    if isinstance(error, _USERS_ERRORS):
        return failure_response(str(error), "user")
    traceback.print_exception(error, file=sys.stderr)
    return failure_response(f"{type(error).__name__}: {error}", "server")
