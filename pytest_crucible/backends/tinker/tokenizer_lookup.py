"""Let the SDK's sampling clients find the tokenizer of a local Tinker server's model.

A sampling client loads its tokenizer by its model's name. SDK 0.25 requests that name from the server, and a local server answers
with a directory. SDK 0.38 keeps the caller's name (`SamplingClient._create_impl`), and `SamplingClient.get_tokenizer` passes that
alone to transformers, which look for `crucible/tiny` on a hub: without a network for most of a minute, and in vain.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pytest_crucible.backends.tinker.polling import resolve_future
from pytest_crucible.local_model import BASE_MODEL


def ask_servers_for_tokenizers(sdk: Any) -> Callable[[], None]:
    """Let sampling clients named `crucible/tiny` load the tokenizer that their server has. Return a function that undoes it."""
    original = sdk.SamplingClient.get_tokenizer

    @functools.wraps(original)
    def get_tokenizer(client: Any) -> Any:
        directory = _directory_at_server(client)
        if directory is None:
            return original(client)
        from transformers import AutoTokenizer  # takes seconds

        return AutoTokenizer.from_pretrained(directory)

    sdk.SamplingClient.get_tokenizer = get_tokenizer
    return lambda: setattr(sdk.SamplingClient, "get_tokenizer", original)


def _directory_at_server(client: Any) -> str | None:
    """Return the long name that the server has for the model, a directory; None for any other model."""
    if resolve_future(client.get_base_model()) != BASE_MODEL:
        return None
    # Private: the SDK's own request for a sampler's model. In a version without it the client is left as it is.
    submit = getattr(client, "_get_sampler_submit", None)
    return None if submit is None else str(submit().result().base_model)
