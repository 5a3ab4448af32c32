"""A real HTTP server in a process of its own that speaks OpenAI's form, and misbehaves as configured.

    with OpenAIServer.start(latency_s=0.05) as server:      # fields of `Behaviour`: how it answers every client
        server.url                                          # http://127.0.0.1:PORT/v1
        server.behave("flaky", fault="500,reset", fault_share=0.1, seed=3)   # how the model "flaky" answers
        server.counts()["requests"]                         # see `Counts`
        server.requests()                                   # the last 1,000: path, headers, body
        server.reset()                                      # forget counts, requests and behaviours of models

It answers POST /v1/chat/completions and /v1/completions (also streamed) and GET /v1/models. How it behaves is found, in this
order, in the header `x-behaviour: latency_s=0.05&fault=500`, in the model's name (`m?latency_s=0.05&fault=500`), under the
model's name (`behave`), and in what it was started with; `behaviour.Behaviour` lists all that can be said. Without a text of
its own it answers with the prompt.

Over HTTP: GET /control tells the counts, GET /control/requests the requests, POST /control with {"model": "flaky", ...fields}
sets a behaviour (no model: the default), DELETE /control forgets. By hand: `PYTHONPATH=tests python -m openai_server --port 8000`.

It needs the standard library alone, answers more than 5,000 requests a second, and ends with its parent.
"""

from .handle import CERTIFICATE, OpenAIServer

__all__ = ["CERTIFICATE", "OpenAIServer"]
