"""Tables of successes and trials, and arms with samples of their own, are compared by the methods of the statistics package."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import HELD, USAGE, main
from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import ImportedRun, ImportOptions
from pytest_crucible.stats.comparing import compare

TASKS = {
    "v2": {"pick": (18, 20), "place": (9, 12), "stack": (9, 10)},
    "v1": {"pick": (12, 20), "place": (4, 10), "stack": (2, 10)},
}


def write_table(tmp_path, text: str, name: str = "counts.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def table(tasks=TASKS) -> str:
    rows = (f"{arm},{task},{k},{n}\n" for arm, of_arm in tasks.items() for task, (k, n) in of_arm.items())
    return "arm,task,successes,trials\n" + "".join(rows)


def evaluate(path, **options):
    return ImportedRun.of([read(path)], ImportOptions(**options)).evaluate_unstored().experiments[0]


class TestTablesOfCounts:
    def test_trials_are_repeats_of_a_task(self, tmp_path):
        v2, v1 = read(write_table(tmp_path, table())).results
        picks = [row.scores["success"] for row in v2.rows if row.sample == "pick"]

        assert (len(picks), sum(picks), v2.repeats, v1.repeats) == (20, 18, 20, 20)

    def test_arms_are_paired_by_task_and_every_task_counts_alike(self, tmp_path):
        """Place has 12 trials in one arm and 10 in the other: all of them count, and none is lost."""
        (comparison,) = evaluate(write_table(tmp_path, table())).comparisons

        rates = [[k / n for k, n in of_arm.values()] for of_arm in TASKS.values()]
        expected = compare(*rates, kind="bounded", bounds=(0, 1))
        assert (comparison.pairs, comparison.lost) == (3, 0)
        assert comparison.difference == pytest.approx(expected.estimate)
        assert comparison.p_value == pytest.approx(expected.p_value)

    def test_a_task_without_trials_is_lost(self, tmp_path):
        tasks = {"v2": {**TASKS["v2"], "pick": (0, 0)}, "v1": TASKS["v1"]}
        (comparison,) = evaluate(write_table(tmp_path, table(tasks))).comparisons

        assert (comparison.pairs, comparison.lost) == (2, 1)

    @pytest.mark.parametrize(("k", "n"), [("5", "4"), ("1.5", "4"), ("-1", "4"), ("x", "4")])
    def test_impossible_counts_are_refused(self, tmp_path, k, n):
        path = write_table(tmp_path, f"task,successes,trials\npick,{k},{n}\n")

        with pytest.raises(
            SpecError, match=f"line 2 of .* has '{k}' successes of '{n}' trials: write two whole numbers"
        ):
            read(path)

    def test_named_metrics_are_not_counts(self, tmp_path):
        path = write_table(tmp_path, "id,successes,trials\nq1,3,4\nq2,1,4\n")

        assert read(path, columns={"metrics": "successes"}).results[0].rows[0].scores == {"successes": 3.0}


class TestUnpairedSamples:
    """Each arm has episodes of its own: nothing pairs them."""

    def test_trials_of_one_task_are_compared_as_two_proportions(self, tmp_path):
        path = write_table(tmp_path, table({"v2": {"pick": (43, 50)}, "v1": {"pick": (29, 46)}}))
        (comparison,) = evaluate(path, unpaired=True).comparisons

        expected = compare([1] * 43 + [0] * 7, [1] * 29 + [0] * 17, False)
        assert (comparison.pairs, comparison.lost) == (96, 0)
        assert comparison.difference == pytest.approx(43 / 50 - 29 / 46)
        assert comparison.p_value == pytest.approx(expected.p_value)
        assert (comparison.interval.low, comparison.interval.high) == pytest.approx((expected.ci_low, expected.ci_high))

    def test_estimates_are_of_an_arms_own_samples(self, tmp_path):
        path = write_table(tmp_path, table({"v2": {"pick": (43, 50)}, "v1": {"pick": (29, 46)}}))
        estimates = evaluate(path, unpaired=True).estimates

        assert [(each.n, each.inapplicable, each.lost) for each in estimates] == [(50, 0, 0), (46, 0, 0)]

    def test_equal_ids_in_two_arms_are_two_samples(self, tmp_path):
        rows = [
            f"{arm},{k},{score}"
            for arm in ("v2", "v1")
            for k, score in enumerate((4, 5, 3, 6) if arm == "v2" else (1, 2))
        ]
        path = write_table(tmp_path, "arm,episode,quality\n" + "\n".join(rows) + "\n")
        files = [read(path, columns={"sample": "episode", "metrics": "quality"})]
        (experiment,) = ImportedRun.of(files, ImportOptions(unpaired=True)).evaluate_unstored().experiments
        (comparison,) = experiment.comparisons

        expected = compare([4, 5, 3, 6], [1, 2], False, kind="unbounded")
        assert (comparison.pairs, comparison.difference) == (6, expected.estimate)
        assert comparison.p_value == pytest.approx(expected.p_value)

    def test_rows_without_ids_are_numbered(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        write_table(tmp_path, "arm,success\n" + "v2,1\n" * 30 + "v1,1\nv1,0\n" * 10)

        assert main(["compare", "counts.csv", "--unpaired", "--column", "sample=#", "--json"]) == HELD
        (comparison,) = json.loads(capsys.readouterr().out)["experiments"][0]["comparisons"]
        assert (comparison["pairs"], comparison["difference"]) == (50, 0.5)
        assert main(["compare", "counts.csv", "--unpaired"]) == USAGE
        assert "or number rows that are samples of their own with --column sample=#" in capsys.readouterr().err

    def test_lost_samples_of_an_arm_widen_its_bounds(self, tmp_path):
        rows = ["v2,a,1", "v2,b,1", "v2,c,", "v1,d,0", "v1,e,1", "v1,f,0"]
        path = write_table(tmp_path, "arm,id,success\n" + "\n".join(rows) + "\n")
        (comparison,) = evaluate(path, unpaired=True).comparisons

        values = [each.value for each in (comparison.evidence.worst, comparison.evidence.best)]
        assert (comparison.pairs, comparison.lost) == (5, 1)
        assert values == pytest.approx([1 / 3, 2 / 3])

    def test_latencies_are_compared_by_their_geometric_means(self, tmp_path):
        rows = [
            f"{arm},{k},{s}" for arm, of_arm in {"v2": (1, 2, 4), "v1": (2, 8)}.items() for k, s in enumerate(of_arm)
        ]
        path = write_table(tmp_path, "arm,id,latency_s\n" + "\n".join(rows) + "\n")
        (comparison,) = evaluate(path, unpaired=True).comparisons

        assert comparison.ratio.value == pytest.approx(0.5)

    def test_groups_of_two_arms_pair_them(self, tmp_path):
        rows = [f"{arm},{arm}{k},{k % 2},1" for arm in ("v2", "v1") for k in range(6)]
        path = write_table(tmp_path, "arm,id,group,success\n" + "\n".join(rows) + "\n")

        with pytest.raises(SpecError, match="group '0' is in several arms, which it pairs: leave --unpaired out"):
            ImportedRun.of([read(path)], ImportOptions(unpaired=True))

    def test_groups_of_one_arm_are_exchanged_whole(self, tmp_path):
        rows = [f"{arm},{arm}{k},{arm}-{k // 3},{int(arm == 'v2' or k % 2)}" for arm in ("v2", "v1") for k in range(12)]
        path = write_table(tmp_path, "arm,id,group,success\n" + "\n".join(rows) + "\n")
        (comparison,) = evaluate(path, unpaired=True).comparisons

        assert comparison.clusters == 8
        # Of 70 ways to choose four of eight groups, two are as extreme.
        assert comparison.p_value == pytest.approx(2 / 70)
