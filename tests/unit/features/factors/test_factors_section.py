"""Sources of noise: which factors a verdict's interval counts, and where more replies narrow it most."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from json_page import page_keys

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.factors import section as variance
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import ArmOutcomes, MetricFacts, PromptForm, ScoreColumns
from pytest_crucible.sections.inputs import NoStoredDetails, section_inputs
from pytest_crucible.stats.factors.crossed import variance_table
from pytest_crucible.stats.number_format import number

FACTS = MetricFacts(name="ok", kind="bounded", low=0.0, high=1.0)
UNBOUNDED = MetricFacts(name="ok", kind="unbounded")
CONTRASTS = (parse_contrast("ok"),)


def drawn(samples=0.1, prompts=0.1, rounds=0.0, shape=(60, 4, 3), seed=0):
    rng = np.random.default_rng(seed)
    n, forms, times = shape
    level = (
        rng.normal(0, samples, (n, 1, 1)) + rng.normal(0, prompts, (1, forms, 1)) + rng.normal(0, rounds, (1, 1, times))
    )
    return np.clip(0.5 + level + rng.normal(0, 0.1, shape), 0, 1)  # fmt: skip


def outcomes(cells) -> ArmOutcomes:
    values = cells.reshape(len(cells), -1)
    positions, repeats = (axis.ravel().tolist() for axis in np.indices(values.shape))
    column = ScoreColumns(
        positions=positions, repeats=repeats, values=values.ravel().tolist(), is_bool=[False] * values.size
    )
    size = values.size
    return ArmOutcomes(
        positions=positions,
        repeats=repeats,
        failures=[None] * size,
        skipped=[False] * size,
        scores={"ok": column},
        lost=[],
    )


@pytest.fixture
def inputs(plan):
    """The analysis of arms, each samples x prompts x rounds."""

    def build(*arms, contrasts=CONTRASTS, targets=("ok >= 0.3",), fixed=(), facts=FACTS):
        base = plan()
        n, forms, rounds = arms[0].shape
        planned = replace(
            base,
            selected=n, planned=n, metrics=(facts,), repeats=rounds, rounds=rounds, fixed=fixed,
            prompts=tuple(PromptForm(name=f"{k}.txt", sha256=str(k)) for k in range(forms)) if forms > 1 else (),
            arms=tuple(replace(base.arms[0], name=name) for name in ("v2", "v1")[: len(arms)]),
            contrasts=tuple(replace(contrast, baseline="v1") for contrast in contrasts if len(arms) > 1),
            targets=tuple(map(parse_target, targets)),
        )  # fmt: skip
        return AnalysisInputs(
            plan=planned, answers=tuple(map(outcomes, arms)), groups=[None] * n, finished=True, known_kinds={}
        )

    return build


@pytest.fixture
def computed(inputs):
    """The noise of arms, each samples x prompts x rounds."""
    return lambda *arms, **fields: noises(inputs(*arms, **fields))


def noises(analysed):
    return variance.compute(section_inputs(analysed, score_table(analysed), NoStoredDetails(), alpha=0.05))


def test_comparison_and_target_have_their_own_sources(computed):
    ours, theirs = drawn(), drawn(seed=1)

    difference, mean = computed(ours, theirs)

    assert (difference.baseline, mean.baseline) == ("v1", None)
    assert difference.components == variance_table(ours - theirs, ["prompts", "rounds"])
    assert mean.components == variance_table(ours, ["prompts", "rounds"])


def test_a_factor_with_one_level_is_not_a_source(computed):
    [mean] = computed(drawn(shape=(60, 1, 3), rounds=0.1))

    assert [part.name for part in mean.components] == ["samples", "rounds", "residual"]


def test_without_a_random_factor_there_is_no_table(computed):
    assert computed(drawn(), fixed=("prompts", "rounds")) is None


def test_a_measure_without_such_an_interval_has_no_table(computed):
    assert computed(drawn(), targets=("p95(ok) <= 1",)) is None


def test_without_claims_the_first_metric_has_a_table(computed):
    assert [noise.measure for noise in computed(drawn(), targets=())] == ["ok"]


@pytest.mark.parametrize(
    ("claim", "facts"),
    [
        (parse_contrast("ok"), FACTS),
        (parse_contrast("ok"), UNBOUNDED),
        (parse_contrast("ok", 0.4), FACTS),
        (parse_contrast("ok", None, "superior"), FACTS),
    ],
    ids=["a gate", "without bounds", "a margin", "an improvement"],
)
def test_advice_starts_from_the_interval_that_is_shown(inputs, claim, facts):
    analysed = inputs(drawn(shape=(60, 12, 12)), drawn(shape=(60, 12, 12), seed=1), contrasts=(claim,), facts=facts)
    analysis = analyse(analysed, score_table(analysed), alpha=0.05, family_size=1)

    difference, mean = noises(analysed)

    intervals = analysis.comparisons[0].interval, analysis.targets[0].estimate.interval
    for noise, interval in zip((difference, mean), intervals, strict=True):
        half_width = (interval.high - interval.low) / 2
        assert noise.half_width == pytest.approx(half_width)
        assert f"±{number(half_width)}" in variance.view([noise], ()).notes[0].text


def test_the_source_that_halves_the_interval_for_the_fewest_replies_is_named(computed):
    [noise] = computed(drawn(samples=0.02, prompts=0.2, shape=(60, 4, 1)))

    more, instead = noise.halving, noise.instead
    assert more.name == "prompts"
    assert more.half_width <= noise.half_width / 2 < instead.half_width
    assert instead.levels == round(60 * more.levels / 4)
    [note] = variance.view([noise], ()).notes
    assert re.fullmatch(
        rf"ok: v2: {more.levels - 4} more prompts halve the interval, from ±0\.\d+ to ±0\.\d+; "
        rf"as many replies to {instead.levels - 60} more samples give ±0\.\d+",
        note.text,
    )


def test_where_samples_are_the_noise_more_samples_are_named(computed):
    [noise] = computed(drawn(samples=0.3, prompts=0.0, shape=(20, 200, 1)))

    assert (noise.halving.name, noise.instead) == ("samples", None)
    assert "more samples halve the interval" in variance.view([noise], ()).notes[0].text


def test_few_levels_that_are_alike_keep_the_interval_wide(computed):
    """Three rounds say nothing about rare ones, so that more prompts alone cannot halve the interval that is shown."""
    [noise] = computed(drawn(samples=0.02, prompts=0.2, shape=(60, 4, 3)))

    assert noise.halving is None
    assert (
        "no source alone can halve the interval; twice the rounds (6) give" in variance.view([noise], ()).notes[0].text
    )


def test_where_no_source_alone_halves_it_the_best_is_named(computed):
    # Twelve prompts and rounds that vary alike: none alone can take more than its half away.
    [noise] = computed(drawn(samples=0.01, prompts=0.1, rounds=0.1, shape=(30, 12, 12)))

    assert noise.halving is None
    text = variance.view([noise], ()).notes[0].text
    assert re.fullmatch(
        r"ok: v2: no source alone can halve the interval; twice the (prompts|rounds) \(24\) give ±\S+ instead of ±\S+",
        text,
    )


def test_fixed_factors_are_marked_and_have_no_interval_to_narrow(computed):
    [noise] = computed(drawn(rounds=0.1), fixed=("prompts",))

    rows = [row.cells for row in variance.view([noise], ()).tables[0].rows]

    assert [cells[0] for cells in rows] == ["samples", "prompts (fixed)", "rounds", "residual"]
    assert [cells[1] for cells in rows] == ["60", "4", "3", "720"]
    assert [cells[3] == "-" for cells in rows] == [False, True, False, True]


def test_the_page_of_json_has_every_key(computed):
    [entry] = variance.view(computed(drawn(samples=0.02, prompts=0.2, shape=(60, 4, 1))), ()).document
    prefix = "experiments[].sections.variance[]"
    keys = {f"{prefix}.{key}" for key in entry}
    keys |= {f"{prefix}.components[].{key}" for key in entry["components"][0]}
    keys |= {f"{prefix}.{name}.{key}" for name in ("halving", "instead") for key in entry[name]}

    assert {key for key in page_keys() if key.startswith(prefix)} == {prefix, *keys} - {prefix}
