"""Evaluations that platforms for traces export: MLflow, LangSmith, Phoenix and Braintrust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.importers.generation import finish_of, first_end, generation_settings
from pytest_crucible.importers.results import (
    Call,
    ParsedFile,
    Row,
    Source,
    amount,
    as_text,
    cell_value,
    number_repeats,
    one_arm,
    split_values,
)
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

Record = Mapping[str, Any]

# MLflow: `result_df` of `mlflow.genai.evaluate` as Parquet, JSON or CSV (https://mlflow.org/docs/latest/genai/eval-monitor/)

_VALUE, _ERROR = "/value", "/error_message"
_MLFLOW_OWN = "mlflow."


def recognises_mlflow(source: Source) -> bool:
    """Return whether the rows have traces, and values next to them. Tables of `mlflow.log_table` have none."""
    rows = source.records
    return bool(rows) and {"trace_id", "trace", "state"} <= set(rows[0]) and any(map(_is_value, rows[0]))


def read_mlflow(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: a result has no name. A trace is a sample, and inputs that recur are its repeats."""
    records, traces = source.records, [_trace(record) for record in source.records]
    metrics, left_out = _metrics(records, traces)
    rows = number_repeats([_mlflow_row(record, trace, metrics) for record, trace in zip(records, traces, strict=True)])
    notes = [f"{source.path.name}: the values of {name!r} are no single number or word, left out" for name in left_out]
    return one_arm(task="mlflow", arm=source.path.stem, rows=rows, facts=_facts(records, metrics), notes=notes)


def _is_value(column: Any) -> bool:
    # Cells beyond the header of a CSV file have the column None.
    return isinstance(column, str) and column.endswith(_VALUE)


def _trace(record: Record) -> Record:
    trace: Record = record["trace"] if isinstance(record["trace"], dict) else json.loads(record["trace"])
    return trace


def _assessments(trace: Record) -> Sequence[Record]:
    assessments: Sequence[Record] = trace["info"].get("assessments") or ()
    return assessments


def _metrics(records: Sequence[Record], traces: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Return the scorers, and those whose values are lists or mappings. Expectations are columns too, but measure nothing."""
    assessments = [assessment for trace in traces for assessment in _assessments(trace)]
    expected = {assessment["assessment_name"] for assessment in assessments if "expectation" in assessment}
    columns = dict.fromkeys(column for record in records for column in record if _is_value(column))
    names = [name for column in columns if (name := column.removesuffix(_VALUE)) not in expected]
    nested = [name for name in names if any(isinstance(record.get(name + _VALUE), list | dict) for record in records)]
    return [name for name in names if name not in nested], nested


def _mlflow_row(record: Record, trace: Record, metrics: Sequence[str]) -> Row:
    """Return the row of a trace. Scorers run after a failed prediction, too: their scores without an output are lost."""
    root: Record = next((span for span in trace["data"]["spans"] if not span.get("parent_span_id")), {})
    inputs = json.loads(root.get("attributes", {}).get("mlflow.spanInputs", "null"))
    error = ""
    if record["state"] == "ERROR":
        error = str((root.get("status") or {}).get("message") or "the prediction failed").partition("\n")[0]
    return Row(
        sample=_mlflow_name(inputs),
        input=inputs,
        expected=_read_expected(trace),
        metadata={
            name: tag for name, tag in (trace["info"].get("tags") or {}).items() if not name.startswith(_MLFLOW_OWN)
        },
        error=error,
        **({} if error else _scores(record, trace, metrics)),
        reply=None if error else _mlflow_reply(trace, root),
        **_mlflow_requests(list(_model_spans(trace))),
    )


def _model_spans(trace: Record) -> Iterator[Record]:
    """Yield what a trace has of each request to a model: inputs and outputs, as far as they are mappings."""
    for span in trace["data"]["spans"]:
        attributes = span.get("attributes") or {}
        if json.loads(attributes.get("mlflow.spanType") or "null") in ("CHAT_MODEL", "LLM"):
            sides = {side: json.loads(attributes.get(f"mlflow.span{side}") or "null") for side in ("Inputs", "Outputs")}
            yield {side: value for side, value in sides.items() if isinstance(value, dict)}


def _mlflow_requests(spans: Sequence[Record]) -> dict[str, Any]:
    """Return prompt and settings of the first request, and all calls where there are several."""
    sent = spans[0].get("Inputs", {}) if spans else {}
    calls = [
        Call(parameters=generation_settings(span.get("Inputs", {})), reply=_read_reply(span.get("Outputs", {})))
        for span in spans
    ]
    return {
        "prompt": sent.get("messages") or sent.get("prompt"),
        "parameters": generation_settings(sent),
        "calls": tuple(calls) if len(calls) > 1 else (),
    }


def _read_reply(outputs: Record) -> Reply:
    """Return the reply of one request, as an OpenAI-shaped answer has it."""
    choice = (outputs.get("choices") or [{}])[0]
    return Reply(
        text=as_text((choice.get("message") or {}).get("content") or ""),
        finish=finish_of(choice.get("finish_reason")),
        model=str(outputs.get("model") or ""),
    )


def _mlflow_name(inputs: Any) -> str:
    """Return the id of a sample, which MLflow does not have: its only input, or all of them as JSON."""
    only = next(iter(inputs.values())) if isinstance(inputs, dict) and len(inputs) == 1 else inputs
    return only if isinstance(only, str) and only else canonical(only)


def _read_expected(trace: Record) -> Any:
    values = {
        assessment["assessment_name"]: assessment["expectation"].get("value")
        for assessment in _assessments(trace)
        if "expectation" in assessment
    }
    return values or None


def _scores(record: Record, trace: Record, metrics: Sequence[str]) -> dict[str, Any]:
    """Return values and losses. A scorer that gave no feedback does not apply; one whose feedback has no value lost it."""
    answered = {assessment["assessment_name"] for assessment in _assessments(trace) if "feedback" in assessment}
    values = {name: cell_value(record.get(name + _VALUE)) for name in metrics}
    lost = {name: record.get(name + _ERROR) for name, value in values.items() if name in answered and value is None}
    return {
        "scores": {name: value for name, value in values.items() if name not in lost},
        "lost": {name: error if isinstance(error, str) else "the scorer gave no value" for name, error in lost.items()},
    }


def _mlflow_reply(trace: Record, root: Record) -> Reply | None:
    outputs = root.get("attributes", {}).get("mlflow.spanOutputs")
    if outputs is None:
        return None
    output, about = json.loads(outputs), trace["info"].get("trace_metadata") or {}
    usage = json.loads(about.get("mlflow.trace.tokenUsage") or "{}")
    duration = trace["info"].get("execution_duration_ms")
    replies = [_read_reply(span.get("Outputs", {})) for span in _model_spans(trace)] or [_read_reply({})]
    return Reply(
        text=as_text(output),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        latency_s=None if duration is None else duration / 1000,
        finish=first_end(replies),
        model=replies[0].model,
    )


def _facts(records: Sequence[Record], metrics: Sequence[str]) -> dict[str, MetricFacts]:
    """Return facts of scorers that answer yes or no: MLflow itself counts yes as passed."""
    values = {name: {type(cell_value(record.get(name + _VALUE))) for record in records} for name in metrics}
    rated = [name for name, types in values.items() if bool in types <= {bool, type(None)}]
    return {name: MetricFacts(name=name, low=0.0, high=1.0) for name in rated}


# LangSmith: the table of `evaluate(...).to_pandas()` as CSV or JSON (https://docs.langchain.com/langsmith/evaluation)

_INPUT, _OUTPUT, _REFERENCE, _FEEDBACK = "inputs.", "outputs.", "reference.", "feedback."


def recognises_langsmith(source: Source) -> bool:
    """Return whether the rows are runs of examples with feedback."""
    names = set((source.records or [{}])[0])
    # Cells beyond the header of a CSV file have the column None.
    return {"example_id", "execution_time"} <= names and any(str(name).startswith(_FEEDBACK) for name in names)


def read_langsmith(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file. An example is a sample, and its further runs are its repeats."""
    records = source.records
    names = dict.fromkeys(name for record in records for name in record if name.startswith(_FEEDBACK))
    rows = number_repeats([_langsmith_row(record, list(names)) for record in records])
    return one_arm(task="langsmith", arm=source.path.stem, rows=rows)


def _langsmith_row(record: Record, feedback: Sequence[str]) -> Row:
    """Return the row of a run. Evaluators see failed runs, too: their scores without an output are lost."""
    error = str(record.get("error") or "").partition("\n")[0]
    values = {} if error else {name.removeprefix(_FEEDBACK): cell_value(record.get(name)) for name in feedback}
    return Row(
        sample=str(record["example_id"]),
        error=error,
        **split_values(values, "the evaluator gave no value"),
        reply=None if error else _langsmith_reply(record),
        input=_part(record, _INPUT),
        expected=_part(record, _REFERENCE) or None,
    )


def _part(record: Record, prefix: str) -> dict[str, Any]:
    """Return the columns of one kind that have a value. A CSV file does not distinguish digits from text: all are texts."""
    parts = {name.removeprefix(prefix): value for name, value in record.items() if name.startswith(prefix)}
    return {
        name: value if isinstance(value, dict | list) else str(value)
        for name, value in parts.items()
        if value not in (None, "")
    }


def _langsmith_reply(record: Record) -> Reply:
    """Return the reply: the run's only output, or all of them as JSON."""
    outputs = _part(record, _OUTPUT)
    only = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    return Reply(text=as_text(only), latency_s=amount(record.get("execution_time")))


# Phoenix: the JSON or CSV that its server exports (https://arize.com/docs/phoenix/datasets-and-experiments)

# Columns of the CSV that may be empty; the reader of CSV leaves empty cells out.
_OPTIONAL = ("output", "error", "prompt_token_count", "completion_token_count")
_ANNOTATION, _KIND = "annotation_", "_annotator_kind"


def recognises_phoenix(source: Source) -> bool:
    """Return whether the rows are runs of a dataset's examples."""
    return {"example_id", "repetition_number", "reference_output", "latency_ms"} <= set((source.records or [{}])[0])


def read_phoenix(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: an export does not name its experiment. An annotation's name is a metric."""
    records = source.records if source.rows is None else [_parse_csv(record) for record in source.records]
    metrics = tuple(dict.fromkeys(annotation["name"] for record in records for annotation in record["annotations"]))
    if not metrics:
        raise SpecError(
            f"{source.path} is an experiment without annotations: run Phoenix's evaluators, and export it again"
        )
    rows = [_phoenix_row(record, metrics) for record in records]
    return one_arm(task="phoenix", arm=source.path.stem, rows=rows)


def _parse_csv(record: Record) -> Record:
    """Return a row of the CSV as the JSON has it. Only the CSV has the metadata of examples."""
    names = [
        column.removeprefix(_ANNOTATION).removesuffix(_KIND)
        for column, cell in record.items()
        if column.startswith(_ANNOTATION) and column.endswith(_KIND) and cell
    ]
    fields = ("label", "score", "error")
    return {
        **dict.fromkeys(_OPTIONAL),
        **record,
        **{name: json.loads(record[name]) for name in ("input", "reference_output", "metadata")},
        "annotations": [
            {"name": name, **{field: record.get(f"{_ANNOTATION}{name}_{field}") for field in fields}} for name in names
        ],
    }


def _phoenix_row(record: Record, metrics: tuple[str, ...]) -> Row:
    """Return the row of a run. Evaluators see failed runs, too: their scores without an output are lost."""
    error = str(record["error"] or "").partition("\n")[0]
    annotations = {} if error else {annotation["name"]: annotation for annotation in record["annotations"]}
    values = {name: _phoenix_value(annotations.get(name, {})) for name in ([] if error else metrics)}
    return Row(
        sample=record["example_id"],
        repeat=int(record["repetition_number"]) - 1,
        error=error,
        scores={name: value for name, value in values.items() if value is not None},
        lost={
            name: str(annotations.get(name, {}).get("error") or "the evaluator gave no value").partition("\n")[0]
            for name, value in values.items()
            if value is None
        },
        reply=None if error else _phoenix_reply(record),
        input=record["input"],
        expected=record["reference_output"],
        metadata=record.get("metadata") or {},
    )


def _phoenix_value(annotation: Record) -> Value | None:
    """Return the score of an annotation, or else its label; None for an evaluator that failed or did not run."""
    score, label = amount(annotation.get("score")), annotation.get("label")
    return None if annotation.get("error") else (label or None) if score is None else score


def _phoenix_reply(record: Record) -> Reply:
    output, milliseconds = record["output"], amount(record["latency_ms"])
    return Reply(
        text=as_text(output),
        input_tokens=_count(record["prompt_token_count"]),
        output_tokens=_count(record["completion_token_count"]),
        latency_s=None if milliseconds is None else milliseconds / 1000,
    )


def _count(cell: Any) -> int | None:
    value = amount(cell)
    return None if value is None else int(value)


# Braintrust: `Eval`, as `result.as_json(default=str)` returns it (https://www.braintrust.dev/docs/evaluate)

# What an evaluation that sends no logs makes of its `experiment_name`.
_EXPERIMENT = " [experiment_name="
_BRAINTRUST_OWN = ("scorer_errors", "classifier_errors")


def recognises_braintrust(source: Source) -> bool:
    """Return whether the document has a summary beside results, or is one of Braintrust's other outputs."""
    return _is_result(source.document) or bool(_other_output(source))


def read_braintrust(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the experiment or else by the file. An input is a sample, and its trials are its repeats."""
    other = _other_output(source)
    if other:
        raise SpecError(
            f"{source.path} is {other} of Braintrust, which is not read: "
            "write `result.as_json(default=str)`, where `result` is what `Eval(...)` returns, or a table with a row for each sample"
        )
    summary, records = source.document["summary"], source.document["results"]
    metrics = tuple(dict.fromkeys(name for record in records for name in record["scores"]))
    named = zip(records, _names(records), strict=True)
    rows = number_repeats([_braintrust_row(record, name, metrics) for record, name in named])
    classified = any(record.get("classifications") for record in records)
    return one_arm(
        task=summary["project_name"],
        arm=_arm(summary) or source.path.stem,
        rows=rows,
        # Scores of Braintrust are from 0 to 1, and more is better.
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in metrics},
        notes=[f"{source.path.name}: the labels of classifiers are not scores, left out"] if classified else [],
    )


def _is_result(document: Any) -> bool:
    is_whole = isinstance(document, dict) and {"summary", "results"} <= set(document)
    return is_whole and isinstance(document["summary"], dict) and _is_summary(document["summary"])


def _is_summary(record: Record) -> bool:
    return {"project_name", "experiment_name", "comparison_experiment_name"} <= set(record)


def _other_output(source: Source) -> str:
    """Return the name of an output of Braintrust that is not read; empty for any other document."""
    first = (source.records or [source.document])[0]
    if not isinstance(first, dict):
        return ""
    is_event = {"_xact_id", "root_span_id", "span_id", "scores"} <= set(first)
    return "a summary" if _is_summary(first) else "an export of events" if is_event else ""


def _arm(summary: Record) -> str:
    """Return the experiment's name; empty if it has only the project's."""
    name: str = summary["experiment_name"]
    # Not a pattern: on a name with many such marks it would take quadratic time.
    _, mark, experiment = name.rpartition(_EXPERIMENT)
    if mark and len(experiment) > 1 and experiment.endswith("]"):
        return experiment[:-1]
    return name if name != summary["project_name"] else ""


def _names(records: Sequence[Record]) -> list[str]:
    """Return the id of each sample: of its row in a dataset of Braintrust, or else its input, with a suffix for equal inputs."""
    expected: dict[str, set[str]] = {}
    for record in records:
        expected.setdefault(as_text(record["input"]), set()).add(canonical(record["expected"]))
    names = []
    for record in records:
        name = as_text(record["input"])
        own = canonical([record["input"], record["expected"]]) if len(expected[name]) > 1 else name
        names.append((record.get("origin") or {}).get("id") or own)
    return names


def _braintrust_row(record: Record, sample: str, metrics: Sequence[str]) -> Row:
    """Return the row of a trial. A score that is None does not apply. Failed scorers may count 0: their scores are lost."""
    metadata = record.get("metadata") or {}
    error = "" if record["error"] is None else str(record["error"]).partition("\n")[0] or "error"
    lost = {} if error else _lost(record["scores"], metadata.get("scorer_errors", {}), metrics)
    return Row(
        sample=sample,
        error=error,
        scores={} if error else {name: record["scores"].get(name) for name in metrics if name not in lost},
        lost=lost,
        reply=None if error else Reply(text=as_text(record["output"])),
        input=record["input"],
        expected=record["expected"],
        metadata={name: value for name, value in metadata.items() if name not in _BRAINTRUST_OWN},
    )


def _lost(scores: Record, tracebacks: Record, metrics: Sequence[str]) -> dict[str, str]:
    """Return the lost scores. A scorer of several scores fails under its own name: the missing scores are its own."""
    errors = {name: str(traceback).strip().rpartition("\n")[2] for name, traceback in tracebacks.items()}
    unnamed = next((error for name, error in errors.items() if name not in metrics), "")
    missing = [name for name in metrics if name not in scores and unnamed]
    return {**dict.fromkeys(missing, unnamed), **{name: errors[name] for name in metrics if name in errors}}
