"""What the statistics cost: every closed form, whole comparisons, many of them, and the import; beside scipy and others.

CPU time of one call, the least of several, since whatever else the machine does only adds. Confidence sequences
are in `sequential`. statsmodels and pingouin are not needed: what is missing says so.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.procedures import CLOSED_FORMS, COMPARISONS, MEMBERS, UNIT, Call, Data
from pytest_crucible import stats

SAMPLES, MANY_SAMPLES = 1_000, 10_000
REPEATS, LEAST_SECONDS = 5, 0.02
CLOSED_FORM_US = 1_000.0
SHIFTS_US = {"mann_whitney": 10_000.0, "wilcoxon_signed_rank": 10_000.0}
"""No closed forms: the Hodges-Lehmann shift comes along, with an interval selected among all pairs of samples."""
WHOLE_MS, HUNDRED_S, LOOK_S, IMPORT_RATIO = 20.0, 3.0, 0.3, 1.5


@dataclass(frozen=True, slots=True)
class Other:
    """The same answer from another library."""

    of: str
    library: str
    name: str
    call: Callable[[Any, Data], object]


OTHERS = (
    Other("paired_t", "scipy.stats", "ttest_rel", lambda its, x: its.ttest_rel(*x.scores).confidence_interval()),
    Other("paired_t", "pingouin", "ttest", lambda its, x: its.ttest(*x.scores, paired=True)),
    Other("welch_t", "scipy.stats", "ttest_ind", lambda its, x: _welch(its, x).confidence_interval()),
    Other("welch_t", "pingouin", "ttest", lambda its, x: its.ttest(*x.scores, correction=True)),
    Other("wilson_interval", "statsmodels.stats.proportion", "proportion_confint", lambda its, x: _wilson(its, x)),
    Other("mcnemar_exact", "statsmodels.stats.contingency_tables", "mcnemar", lambda its, x: its.mcnemar(_square(x))),
    Other("mann_whitney", "scipy.stats", "mannwhitneyu", lambda its, x: its.mannwhitneyu(*x.scores)),
    Other("mann_whitney", "pingouin", "mwu", lambda its, x: its.mwu(*x.scores)),
    Other("wilcoxon_signed_rank", "scipy.stats", "wilcoxon", lambda its, x: its.wilcoxon(*x.scores)),
    Other("wilcoxon_signed_rank", "pingouin", "wilcoxon", lambda its, x: its.wilcoxon(*x.scores)),
    Other("kruskal_wallis", "scipy.stats", "kruskal", lambda its, x: its.kruskal(*x.arms)),
    Other("anova_oneway", "scipy.stats", "f_oneway", lambda its, x: its.f_oneway(*x.arms)),
    Other("levene", "scipy.stats", "levene", lambda its, x: its.levene(*x.arms)),
    Other("shapiro_wilk", "scipy.stats", "shapiro", lambda its, x: its.shapiro(x.scores[0])),
    Other("pearson", "scipy.stats", "pearsonr", lambda its, x: its.pearsonr(*x.scores).confidence_interval()),
    Other("pearson", "pingouin", "corr", lambda its, x: its.corr(*x.scores)),
    Other("spearman", "scipy.stats", "spearmanr", lambda its, x: its.spearmanr(*x.scores)),
    Other("kendall", "scipy.stats", "kendalltau", lambda its, x: its.kendalltau(*x.scores)),
    Other("power_t", "statsmodels.stats.power", "TTestPower", lambda its, x: its.TTestPower().power(0.1, x.n, 0.05)),
    Other("adjust", "statsmodels.stats.multitest", "multipletests", lambda its, x: _holm(its, x)),
    Other("cohens_dz", "pingouin", "compute_effsize, no interval", lambda its, x: _effect(its, x)),
)


def _welch(its: Any, x: Data) -> Any:
    return its.ttest_ind(*x.scores, equal_var=False)


def _wilson(its: Any, x: Data) -> object:
    return its.proportion_confint(*x.counts[:2], method="wilson")


def _holm(its: Any, x: Data) -> object:
    return its.multipletests(x.scores[0], method="holm")


def _effect(its: Any, x: Data) -> object:
    return its.compute_effsize(*x.scores, paired=True, eftype="cohen")


def _square(x: Data) -> list[list[int]]:
    gained, lost = x.discordant
    return [[0, gained], [lost, 0]]


def figures() -> list[Figure]:
    return [*_closed_forms(), *_comparisons(), _hundred(), _look(), *_imports()]


def _closed_forms() -> Iterator[Figure]:
    data, more = Data(SAMPLES), Data(MANY_SAMPLES)
    for name, call in CLOSED_FORMS.items():
        took = 1e6 * seconds(call, data)
        limit = SHIFTS_US.get(name, CLOSED_FORM_US)
        yield Figure(name=f"{name}, n={data.n:,}", measured=took, unit="us", limit=limit, digits=0)
        if name in ("clustered_paired_t", "mann_whitney", "cliffs_delta"):
            yield Figure(name=f"- n={more.n:,}", measured=1e6 * seconds(call, more), unit="us", digits=0)
        yield from (_beside(other, data) for other in OTHERS if other.of == name)


def _beside(other: Other, data: Data) -> Figure:
    library = _library(other.library)
    name = f"- {other.library.split('.')[0]}: {other.name}"
    took = None if library is None else 1e6 * seconds(lambda x: other.call(library, x), data)
    return Figure(name=name, measured=took, unit="us", digits=0)


def _library(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _comparisons() -> Iterator[Figure]:
    data = Data(SAMPLES)
    for name, call in COMPARISONS.items():
        yield Figure(
            name=f"{name}, n={data.n:,}", measured=1e3 * seconds(call, data), unit="ms", limit=WHOLE_MS, digits=2
        )


def _hundred() -> Figure:
    name = f"100 comparisons of n={SAMPLES:,} with intervals, and Holm"
    return Figure(name=name, measured=seconds(_family, Data(SAMPLES)), unit="s", limit=HUNDRED_S, digits=3)


def _look() -> Figure:
    """All pairs of a sweep's members, with simultaneous claims: what one look of a sweep computes."""
    name = f"ranks of {MEMBERS} arms, n={SAMPLES:,}, all pairs together"
    return Figure(name=name, measured=seconds(_rank, Data(SAMPLES)), unit="s", limit=LOOK_S, digits=3)


def _rank(x: Data) -> object:
    return stats.rank_arms(x.members)


def _family(x: Data) -> object:
    found = [stats.compare(*x.scores, bounds=UNIT) for _ in range(100)]
    return stats.holm([one.p_value for one in found])


FIRST_COMPARE = "from pytest_crucible import stats; stats.compare([0, 1, 1, 0], [1, 1, 1, 0])"
NEEDS = "import sys; raise SystemExit('scipy.stats' in sys.modules)"


def _imports() -> Iterator[Figure]:
    """CPU time of a process that does it, less that of one that does nothing."""
    nothing = _process("pass")
    ours, special, everything = (
        _process(code) - nothing for code in (FIRST_COMPARE, "import scipy.special", "import scipy.stats")
    )
    alone = _process("import pytest_crucible.stats") - nothing
    needed = subprocess.run([sys.executable, "-c", f"{FIRST_COMPARE}; {NEEDS}"], check=False).returncode
    yield Figure(name="import stats", measured=1e3 * alone, unit="ms")
    yield Figure(name="import stats and the first compare", measured=1e3 * ours, unit="ms")
    yield Figure(name="- import scipy.special", measured=1e3 * special, unit="ms")
    yield Figure(name="- import scipy.stats", measured=1e3 * everything, unit="ms")
    yield Figure(
        name="- the first compare over scipy.special", measured=ours / special, unit="", limit=IMPORT_RATIO, digits=2
    )
    yield Figure(name="- imports of scipy.stats by it", measured=needed, unit="", limit=0, digits=0)


def _process(code: str) -> float:
    """Seconds of CPU, the least of seven."""
    taken = []
    for _ in range(7):
        before = _children()
        subprocess.run([sys.executable, "-c", code], check=True)
        taken.append(_children() - before)
    return min(taken)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(call: Call, data: Data) -> float:
    """Of one call: the least of five means, each over as many calls as fill 20 ms."""
    call(data)
    calls = max(1, round(LEAST_SECONDS / max(_taken(call, data, 1), 1e-6)))
    return min(_taken(call, data, calls) for _ in range(REPEATS))


def _taken(call: Call, data: Data, calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        call(data)
    return (time.process_time() - started) / calls


if __name__ == "__main__":
    raise SystemExit(show(figures()))
