"""Log-probabilities of a reply's tokens, in both formats that OpenAI has for them."""

from __future__ import annotations

from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server.messages import Json
from pytest_crucible.local_model.tokens import Tokenizer


def completion_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """Return log-probabilities in the format of /completions."""
    texts = [tokenizer.decode([token]) for token in reply.tokens]
    tops: list[Json] = [{tokenizer.decode([token]): logprob for token, logprob in row} for row in _tops(reply)]
    return {
        "tokens": texts,
        "token_logprobs": reply.logprobs,
        "top_logprobs": tops if reply.topk_tokens is not None else None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }


def chat_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """Return log-probabilities in the format of /chat/completions."""

    def token_entry(token: int, logprob: float) -> dict[str, Json]:
        content = tokenizer.bytes_of([token])
        return {"token": content.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(content)}

    rows = zip(reply.tokens, reply.logprobs, _tops(reply), strict=True)
    content: list[Json] = [
        {**token_entry(token, logprob), "top_logprobs": [token_entry(*pair) for pair in top]}
        for token, logprob, top in rows
    ]
    return {"content": content, "refusal": None}


def _tops(reply: Sampled) -> list[list[tuple[int, float]]]:
    if reply.topk_tokens is None or reply.topk_logprobs is None:
        return [[] for _ in reply.tokens]
    pairs = zip(reply.topk_tokens.tolist(), reply.topk_logprobs.tolist(), strict=True)
    return [list(zip(tokens, logprobs, strict=True)) for tokens, logprobs in pairs]
