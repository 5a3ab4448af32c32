"""No reply can stop a run: whatever reads replies, and files of them, by regular expressions takes linear time.

Patterns of the user stop after a second.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pytest_crucible
from base_model.tokenizer import train_tokenizer
from pytest_crucible import Reply, Sample, metrics
from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.openai.responses import parse_seconds, reply_or_error
from pytest_crucible.backends.openai.settings import read_settings
from pytest_crucible.backends.tinker import health
from pytest_crucible.features.cns3 import claims, thinker
from pytest_crucible.features.training import set_attempts
from pytest_crucible.importers import benchmark_runs, metric_facts, suites, table_rows
from pytest_crucible.local_model.server import archive, openai_formats, transport
from pytest_crucible.local_model.server.application import Application
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.metrics import code_execution, code_match
from pytest_crucible.metrics.models.scorers import NoVerdict, read_verdict
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.records import Adapter, reasoning, secret_settings, unknown_reasoning, views
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import hider
from pytest_crucible.report import html, markdown
from pytest_crucible.report.verdicts import align_estimates
from pytest_crucible.store import forms, texts

ROOT = Path(pytest_crucible.__file__).parent
OPTIONS = ["one", "two"]
SAMPLE = Sample(id="1", input="(A) one", expected="A", metadata={"options": OPTIONS, "choices": OPTIONS})


def score_text(metric) -> Callable[[str], object]:
    return lambda text: metric(Reply(text=text), SAMPLE)


def verdict(text: str) -> None:
    with contextlib.suppress(NoVerdict):
        read_verdict(text, ["good", "poor"])


TOKENIZER = train_tokenizer(["the answer is 42", "final answer: (A)"], vocabulary=270)
ADAPTER = Adapter(name="v2", backend="openai", options={"base_url": "http://127.0.0.1:1/v1", "model": "m"})
APPLICATION = Application(None, "key")  # type: ignore[arg-type]
FOLDER = tempfile.TemporaryDirectory()
SETTINGS = read_settings(ADAPTER, Path(), {})


def error_of(status: int) -> Callable[[str], object]:
    """A server's error with this message."""

    def read(text: str) -> object:
        body = json.dumps({"error": {"message": text}}).encode()
        return reply_or_error(Response(status, {"retry-after": text}, body, 0.0, 0.1), SETTINGS, ("n", "temperature"))

    return read


def head(text: str) -> None:
    """The head of a request to the local server: its first line, and a header."""
    for before, after in (("", ""), ("GET /", " HTTP/1.1"), ("GET / HTTP/1.1\r\n", ": x")):
        with contextlib.suppress(Refusal):
            transport.parse_head(before + text + after)


def route(text: str) -> None:
    with contextlib.suppress(Refusal):
        APPLICATION._route(transport.Request("GET", f"/api/v1/{text}/x", "", {}))


def checkpoint(text: str) -> None:
    with contextlib.suppress(ValueError):
        archive.CheckpointPath(text, archive.SAMPLER, text)


def promptfoo_output(text: str) -> None:
    """A table that may be promptfoo's."""
    path = Path(FOLDER.name) / "results.csv"
    path.write_text(text, encoding="utf-8")
    with contextlib.suppress(SpecError, csv.Error):
        suites.refuse_other_outputs(path)


def case_name(text: str) -> None:
    suites._sample({"name": text, "source_case_name": "a"})


def helm_name(text: str) -> None:
    """The name of a statistic."""
    benchmark_runs._facts([text])
    stats = [{"name": {"name": text}, "mean": 1.0, "count": 1}]
    benchmark_runs._helm_row({"instance_id": "a", "train_trial_index": 0, "stats": stats}, {}, {})


READERS: dict[str, dict[str, Callable[[str], object]]] = {
    "metrics/code_match.py": {"code_of": code_match.code_of},
    "metrics/code_execution.py": {"solution": lambda text: code_execution.solution("def f(x):\n", text, "f")},
    "metrics/text.py": {"squad_normalise": metrics.squad_normalise, "refuses": metrics.refuses},
    "metrics/schema.py": {"valid_json": score_text(metrics.valid_json(fenced=True))},
    "metrics/numbers.py": {
        "final_number": metrics.final_number,
        "quantities": metrics.quantities,
        "numeric_match": score_text(metrics.numeric_match(which="marked")),
    },
    "metrics/choice.py": {
        "choice_of": metrics.choice_of,
        "choice_match": score_text(metrics.chooses()),
        "choice_of, ten letters": lambda text: metrics.choice_of(text, "ABCDEFGHIJ"),
    },
    "metrics/models/verdicts.py": {"read_verdict": verdict},
    "features/cns3/thinker.py": {"read": thinker.read, "schema_valid": thinker.schema_valid},
    "features/cns3/claims.py": {"parse": claims.parse, "mentioned": claims.mentioned_ids},
    "metrics/normalisers.py": dict(NORMALISERS),
    "backends/openai/responses.py": {
        **{f"status {status}": error_of(status) for status in (400, 404)},
        "parse_seconds": parse_seconds,
    },
    "backends/tinker/health.py": {"is_too_long": lambda text: health._TOO_LONG.search(text)},
    "importers/benchmark_runs.py": {"names of statistics": helm_name},
    "importers/metric_facts.py": {"is_known": metric_facts.is_known, "spelling": metric_facts.spelling},
    "importers/suites.py": {"refuse_other_outputs": promptfoo_output, "names of cases": case_name},
    "importers/table_rows.py": {
        "a column": lambda text: table_rows._SUFFIX.sub("", text),
        "a cell": table_rows.is_whole_number,
    },
    "local_model/server/application.py": {"route": route},
    "local_model/server/archive.py": {"CheckpointPath": checkpoint},
    "local_model/server/openai_formats.py": {"split_calls": lambda text: openai_formats.split_calls(text, "call")},
    "local_model/server/transport.py": {"parse_head": head},
    "local_model/tokens.py": {"encode": lambda text: TOKENIZER.encode(text)},
    "records/reasoning.py": {
        "answer_span": reasoning.answer_span,
        "reasoning_text": lambda text: reasoning.reasoning_text(text, len(text)),
    },
    "records/unknown_reasoning.py": {"unknown_reasoning": unknown_reasoning.unknown_reasoning},
    "records/views.py": {"guard_cell": views.guard_cell, "unguard_cell": views.unguard_cell},
    "records/secret_settings.py": {"hide_encoded": lambda text: secret_settings.hide_encoded(text, str)},
    "records/redaction.py": {"hider": hider({"planted"})},
    "report/verdicts.py": {"align_estimates": lambda text: align_estimates([text, f"0.5 [{text}]"])},
    "report/markdown.py": {"plain": markdown.plain, "code": markdown.code},
    "report/html.py": {"blanks": html.blanks},
    "features/training/set_attempts.py": {"own texts of a form": set_attempts._OWN.findall},
    "store/forms.py": {
        "split_conversation": lambda text: forms.split_conversation(
            json.dumps([{"role": "assistant", "content": text}])
        ),
        "texts_apart": forms.texts_apart,
    },
    "store/texts.py": {"messages_of": lambda text: texts.messages_of(json.dumps(text), {"i0": "a"})},
}
CONFIGURATION = "reads the configuration or the command line"
FILE_NAME = "reads the name of a file, which has at most 255 bytes"
NO_REPLIES = {
    "backends/budget.py": CONFIGURATION,
    "backends/http/client.py": CONFIGURATION,
    "backends/openai/settings.py": CONFIGURATION,
    "importers/agent_benchmarks.py": FILE_NAME,
    "importers/formats.py": FILE_NAME,
    "importers/lm_eval_samples.py": FILE_NAME,
    "metrics/json_patterns.py": "reads the patterns of a schema",
    "metrics/json_validator.py": "reads the patterns of a schema",
    "metrics/models/weights.py": "reads the configuration of a model in a local directory",
    "records/measures.py": CONFIGURATION,
    "records/reasoning_forms.py": "its patterns are those of records/reasoning.py",
    "records/registry.py": CONFIGURATION,
    "records/row_files.py": "its pattern is one class of blanks",
    "records/settings.py": CONFIGURATION,
    "records/secret_settings.py": CONFIGURATION,
    "records/datasets.py": CONFIGURATION,
    "store/database.py": "reads statements of this package",
    "store/history.py": CONFIGURATION,
    "store/part_reader.py": "reads statements of this package",
    "store/parts.py": CONFIGURATION,
    "local_model/server/models.py": CONFIGURATION,
    "local_model/text_patterns.py": "reads the patterns of a schema",
    "local_model/server/hub_cache.py": CONFIGURATION,
    "local_model/server/cookbook_names.py": "reads the source of an installed package",
    "features/cns3/antagonist.py": CONFIGURATION,
    "features/cns3/judgement.py": r"its pattern is \w+",
}
ATOMS = (
    " ", "\t", "\n", " \n", "a", "A", "a ", "A ", "1", "1,", "1.", "1/", "1 1/2", ",111", "e1", "-", "- ", "+", "$",
    "%", "(", ")", "[", "]", "{", "}", "()", "(A) ", "A) ", "*", "**", "_", "`", "```", "```\n", "```json ", "~~~",
    ">", "> ", "#", "\\", '"', "answer ", "answer is ", "final answer: ", "the answer is not ", "option ",
    "\\boxed{", "\\text{", "\\frac{1}{", "I cannot ", "not ", "Document ", "Document 1 ", "(Document 1)", ", 1",
    "doc_id:", "[11111", "CLAIM[", "CLAIM[c1", "CLAIM[c1]: ", "RELATION", "RELATION: a ", "VERDICT: ", "<think>",
    "</think>", "<answer>", "<answer>A", '{"a": ', "sorry, ", ".", "runtime", "num_", "/v1", " [1", " [1/1",
    "[FAIL", "maximum ", "context ", "option", "%2F", "www", "://", "sk-", "eyJa.", "1s", "~~~ \n", "- ", "1. ", "[{", "@", "@\n",
    "<think><think></think>", "<|channel|>", "<|end|>", "<|start|>assistant", "<|start|>assistant<|channel|>final<|message|>",
    "<|END_THINKING|>", "<|END_RESPONSE|>", "<thinking>", "</xyz_think>", "<|close|>response<|sep|>", "analysis", "assistantfinal",
    "x=\n", '"""', "def f(", "def f(x):\n", "f =", "```\ndef f(x):\n", "```python\ndef f(x): pass\n```\n",
)  # fmt: skip
BEFORE = (
    "", "1", "A", "answer", "RELATION", "RELATION: a", "RELATION: a supports", "CLAIM[c1]", "CLAIM[c1] (",
    "CLAIM[c1] (1", "Document", "doc_id", "```", "```json", "\\boxed{", "<answer>", "I", "- ",
    "<think>", "<|START_THINKING|>a<|END_THINKING|>", "<|channel|>final",
)  # fmt: skip
BLANK = (" ", "\t", "a", "1", ", 1", "-", "*", "(", "a ")


def hostile() -> Iterator[tuple[str, str, str]]:
    for atom in ATOMS:
        yield from (("", atom, after) for after in ("x", "\nx"))
    for before in BEFORE:
        yield from ((before, atom, after) for atom in BLANK for after in ("!", "\nx"))


def seconds(read: Callable[[str], object], before: str, atom: str, after: str, size: int) -> float:
    text = before + atom * (size // len(atom)) + after
    start = time.process_time()
    read(text)
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, readers in READERS.items() for name in readers], ids=str
)
def test_a_reply_is_read_in_linear_time(module, name):
    read = READERS[module][name]

    # One is enough: all of them may take minutes.
    assert next((shape for shape in hostile() if is_slow(read, shape)), None) is None


def is_slow(read: Callable[[str], object], shape: tuple[str, str, str]) -> bool:
    # Exponential growth shows at once; quadratic growth in sixteen times the time for four times the text.
    if seconds(read, *shape, 26) > 0.5:
        return True
    # A busy machine may disturb one try.
    return seconds(read, *shape, 4_000) > 0.005 and all(
        seconds(read, *shape, 16_000) > 8 * seconds(read, *shape, 4_000) for _ in range(3)
    )


def test_every_module_that_reads_replies_by_patterns_is_timed():
    folders = ("metrics", "features/cns3", "backends", "importers", "local_model", "records", "report", "store")
    modules = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\bre\.(compile|search|match|fullmatch|sub|findall|finditer|split)\(", path.read_text())
    }

    assert modules - set(NO_REPLIES) <= set(READERS)


# -- patterns of the user -------------------------------------------------------------------------------------------

EVIL = "^(a|a)*$"
TEXT = "a" * 40 + "!"
SLOW = re.escape(
    f"the pattern {EVIL!r} took more than 0.05 s on a text of 41 characters: write it without a repetition"
)


@pytest.mark.parametrize(
    ("metric", "reply"),
    [
        (metrics.matches(EVIL), TEXT),
        (metrics.valid_json({"pattern": EVIL}), json.dumps(TEXT)),
        (metrics.json_problem({"pattern": EVIL}), json.dumps(TEXT)),
        (metrics.valid_json({"patternProperties": {EVIL: False}}), json.dumps({TEXT: 1})),
        (metrics.valid_json({"patternProperties": {EVIL: True}, "additionalProperties": False}), json.dumps({TEXT: 1})),
        (metrics.valid_json({"items": {"pattern": EVIL}}), json.dumps([TEXT] * 50)),
    ],
)
def test_an_endless_pattern_of_the_suite_is_an_error(monkeypatch, metric, reply):
    monkeypatch.setattr("pytest_crucible.metrics.text.MAX_SEARCH_S", 0.05)

    with pytest.raises(TimeoutError, match=SLOW):
        metric(Reply(text=reply), SAMPLE)


def test_nested_repetitions_that_regex_can_search_are_fast():
    assert metrics.valid_json({"pattern": "^(a+)+$"})(Reply(text=json.dumps(TEXT)), SAMPLE) is False
