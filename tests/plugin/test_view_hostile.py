"""A store whose texts and names attack a page: replies, prompts, ids, groups, fields, metrics, adapters, tests and tags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_tabs import open_tabs
from hostile_texts import CONTROL, HOSTILE
from report_builders import make_plan

from pytest_crucible.records import Arm, Contrast, MetricFacts, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from tests.dashboard import served_dashboard

ACTS = """<img src=x onerror="window.hurt=1"><svg onload="window.hurt=1"><script>window.hurt=1</script>'"--><a href="http://evil.example">"""
TEXTS = {
    "acts": ACTS,
    "template": "{{ 7 * 7 }}{% include 'base.html.j2' %}${7 * 7}",
    "megabyte": "x" * 1_000_000,
    "deep": "[" * 10_000 + "]" * 10_000,
    **{name: HOSTILE[name] for name in ("html", "ansi", "controls", "return", "bidi", "nul", "half", "format", "sql")},
}
NAMES = (ACTS, HOSTILE["ansi"], HOSTILE["bidi"])

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "runs.db"
    with contextlib.closing(RunStore(str(path))) as opened:
        for run in ("a" * 12, "b" * 12):
            fill(opened, run)
    return path


def fill(store: RunStore, run: str) -> None:
    """Store a finished run in which each name is hostile."""
    metrics = tuple(MetricFacts(name=f"{name}{k}", kind="binary", low=0.0, high=1.0) for k, name in enumerate(NAMES))
    arms = (
        Arm(name=f"v2 {ACTS}", role="candidate", adapter="v2", identity=f"two {ACTS}"),
        Arm(name=f"v1 {HOSTILE['bidi']}", role="baseline", adapter="v1", identity="one"),
    )
    plan = make_plan(
        nodeid=f"test_{ACTS}.py::test_{HOSTILE['ansi']}",
        dataset=ACTS,
        planned=len(TEXTS),
        selected=len(TEXTS),
        arms=arms,
        metrics=metrics,
        targets=(),
        contrasts=tuple(Contrast(metric=metric.name, baseline=arms[1].name) for metric in metrics),
    )
    samples = [
        Sample(
            id=f"{text[:100_000]}{name}",
            input=text,
            expected=text,
            group=f"{name} {text[:1000]}",
            metadata={ACTS: text[:1000]},
        )
        for name, text in TEXTS.items()
    ]
    facts = {"seed": 0, "alpha": 0.05, "correction": "holm", "git": {}, "environment": {}}
    store.begin_run(run, started=f"2026-01-0{1 + (run[0] == 'b')}T00:00:00+00:00", **facts)
    key = store.add_experiment(run, plan, samples)
    numbers = [store.add_arm(key, number, arm.name, arm.identity) for number, arm in enumerate(arms)]
    writer = store.writer()
    for position, text in enumerate(TEXTS.values()):
        for number, reply in enumerate((text, f"{text}!" if position % 2 else "no")):
            unit = Unit(position, 0, number, 0)
            scores = [Observation(unit, metric.name, (position + number) % 3 > 0) for metric in metrics]
            writer.add(Outcome(unit, reply=Reply(text=reply, latency_s=0.1), started=0.0), numbers[number], scores, ())
    writer.close()
    store.finish_experiment(key)
    conclude(store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)
    store.insert(
        schema.tags, [{"name": ACTS, "run": run, "at": "2026-01-03T00:00:00+00:00", "promoted": False, "forced": False}]
    )


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[tuple[str, str]]:
    with served_dashboard(store) as served:
        yield served


RUN = "/runs/aaaaaaaaaaaa"
PAGES = [
    *("/", RUN, f"{RUN}/samples", f"{RUN}/requests", f"{RUN}/training", "/compare/bbbbbbbbbbbb/aaaaaaaaaaaa"),
    *(f"{RUN}/samples/1/{position}" for position in range(len(TEXTS))),
]


@pytest.mark.parametrize("path", PAGES)
def test_a_hostile_text_is_inert(browser, served, path):
    with open_tabs(browser, served) as tabs:
        page = tabs.open(path)

        assert page.evaluate("window.hurt") is None
        assert page.locator("img[onerror], svg[onload]").count() == 0
        assert all(
            href.startswith(tabs.address)
            for href in page.eval_on_selector_all("a", "links => links.map((a) => a.href)")
        )
        assert CONTROL.findall(page.inner_text("body")) == []
