"""The formats of records that need more than the names of their fields: totals, gold answers, and files next to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.importers.metric_facts import facts_by_name
from pytest_crucible.importers.record_formats import RecordReader, find
from pytest_crucible.importers.results import Reader, Record, Source, amount
from pytest_crucible.importers.sources import read_beside
from pytest_crucible.records import MetricFacts


def add_total_reward(record: Record) -> Record:
    """Return a rollout with its reward, the weighted sum of its rewards, which verifiers does not write."""
    rewards = [reward for reward in (find(record, "traces.0.rewards") or {}).values() if reward is not None]
    total = sum(reward["score"] * reward.get("weight", 1.0) for reward in rewards)
    return {**record, "reward": total if rewards else None}


def reward_facts(records: Sequence[Record]) -> Mapping[str, MetricFacts]:
    """Return the direction of each reward, which the sign of its weight shows."""
    weights: dict[str, set[float]] = {}
    for name, reward in (item for record in records for item in (find(record, "traces.0.rewards") or {}).items()):
        if reward is not None:
            weights.setdefault(name, set()).add(float(reward.get("weight", 1.0)))
    up = [name for name, of_name in weights.items() if min(of_name) > 0]
    down = [name for name, of_name in weights.items() if max(of_name) < 0]
    return {name: MetricFacts(name=name, direction="lower" if name in down else "higher") for name in (*up, *down)}


def read_verifiers_run(source: Source) -> Mapping[str, Any]:
    """Return the number of rollouts of each task, which the configuration next to `traces.jsonl` has."""
    config = read_beside(source.path.parent / "configs" / "resolved" / "eval.json")
    return {"repeats": config["num_rollouts"]} if config.get("num_rollouts") else {}


# Fields of a result of verifiers before 0.2 that are no metric: all others are rewards by the name of their function.
_NO_REWARDS = frozenset({"example_id", "reward", "generation_ms", "scoring_ms", "total_ms"})


def add_named_rewards(record: Record) -> Record:
    """Return a result of verifiers with the fields that are rewards in a mapping."""
    names = [name for name, value in record.items() if isinstance(value, int | float) and name not in _NO_REWARDS]
    return {**record, "metrics": {name: record[name] for name in names}}


def read_verifiers_results(source: Source) -> Mapping[str, Any]:
    """Return the model and the number of rollouts, which `metadata.json` next to the results has."""
    about = read_beside(source.path.with_name("metadata.json"))
    model = str(about.get("model") or "")
    return {
        "repeats": about.get("rollouts_per_example") or 0,
        **({"arm": model, "weights": {"model": model}} if model else {}),
    }


def add_gold_answers(record: Record) -> Record:
    """Return a detail of lighteval with the choices that are right."""
    choices, index = find(record, "doc.choices") or [], find(record, "doc.gold_index")
    indices = index if isinstance(index, list) else [index]
    return {**record, "gold": [choices[k] for k in indices if isinstance(k, int) and -1 < k < len(choices)]}


def add_win(record: Record) -> Record:
    """Return an annotation with a win from 0 to 1: AlpacaEval's preference is 1 for the reference, 2 for the model, and 0 or 1.5
    for a draw.
    """
    preference = amount(record["preference"])
    win = None if preference is None else 0.5 if preference == 0 else preference - 1
    return {**record, "dataset": f"alpaca_eval against {record['generator_1']}", "win": win}


def read_lighteval_run(source: Source) -> Mapping[str, Any]:
    """Return the model and the directions of metrics, which only the results of the run have.

    A run writes `details/MODEL/DATE/details_TASK_DATE.parquet` and `results/MODEL/results_DATE.json`.
    """
    folder = source.path.resolve().parent
    output = next((parent for parent in folder.parents if parent.name == "details"), None)
    if output is None:
        return {"arm": folder.name}
    model = folder.parent.relative_to(output)
    run = read_beside(output.parent / "results" / model / f"results_{folder.name}.json")
    tasks = run.get("config_tasks") or {}
    metrics = [metric for task in tasks.values() for metric in _metrics(task)]
    facts = {name: _facts_with(name, up) for metric in metrics for name, up in _directions(metric)}
    return {"arm": str(model), "facts": facts, "weights": {"model": str(model)}}


def _metrics(task: Any) -> list[Mapping[str, Any]]:
    """Return the metrics of a task, which the results have as objects, or as texts in other versions."""
    metrics = task.get("metrics") if isinstance(task, Mapping) else None
    return [metric for metric in metrics or () if isinstance(metric, Mapping)]


def _directions(metric: Mapping[str, Any]) -> list[tuple[str, bool]]:
    name, up = metric.get("metric_name"), metric.get("higher_is_better")
    names = name if isinstance(name, list) else [name]
    return [
        (str(each), value)
        for each in names
        if isinstance(value := up.get(each) if isinstance(up, Mapping) else up, bool)
    ]


def _facts_with(name: str, up: bool) -> MetricFacts:
    facts = facts_by_name(name)
    return MetricFacts(name=name, direction="higher" if up else "lower", low=facts.low, high=facts.high)


RECORD_READERS: Mapping[str, Reader] = {
    "verifiers": RecordReader("verifiers", prepare=add_total_reward, declared=reward_facts, beside=read_verifiers_run),
    "verifiers-results": RecordReader("verifiers-results", prepare=add_named_rewards, beside=read_verifiers_results),
    "lighteval": RecordReader("lighteval", prepare=add_gold_answers, beside=read_lighteval_run),
    "tau2": RecordReader("tau2"),
    "opik": RecordReader("opik"),
    "opik-results": RecordReader("opik-results"),
    "weave": RecordReader("weave"),
    "alpaca-eval": RecordReader("alpaca-eval", prepare=add_win),
}
