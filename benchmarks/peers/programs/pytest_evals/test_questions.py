"""pytest-evals: one item a question, one question at a time."""

from __future__ import annotations

import json
import os
import urllib.request

import pytest

URL = os.environ["PEERS_URL"] + "/chat/completions"


def ask(question: str) -> str:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": question}]}).encode()
    request = urllib.request.Request(URL, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]


@pytest.mark.eval(name="questions")
@pytest.mark.parametrize("number", range(int(os.environ["PEERS_SAMPLES"])))
def test_question(number, eval_bag):
    eval_bag.right = ask(f"question {number}") == f"question {number}"
    assert eval_bag.right
