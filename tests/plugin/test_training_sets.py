"""`crucible export --what sft|dpo|kto`: training sets from practice samples, guarded and with their origins."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.cli import main
from pytest_crucible.features.training.sets import find_training_set
from pytest_crucible.store.runs import RunStore

SCRIPTS = """
    from pytest_crucible import BackendError, Reply

    def answer(request):
        number = int(request.sample.strip("pqg"))
        if number == 5:
            raise BackendError("rebooted, it says")
        if number == 6:
            return Reply(text="12 and th", finish="length")
        return Reply(text=str(2 * number) if (number + request.repeat) % 2 else "no idea")

    def base(request):
        return Reply(text="0")
"""
TEST = """
    import pytest

    pytestmark = [pytest.mark.quality_target("exact_match >= 0"), pytest.mark.ab_compare("exact_match")]
    PRACTICE = [
        {"id": f"p{k:02}", "input": f"{k} + {k}", "expected": str(2 * k), "group": f"g{k // 2}"} for k in range(20)
    ]
    GATE = [{"id": f"g{k:02}", "input": f"{k} + {k}", "expected": str(2 * k)} for k in range(18, 30)]

    @pytest.mark.crucible(dataset=PRACTICE, metrics=["exact_match"], purpose="practice", epochs=2)
    async def test_practice(sample, sampler):
        messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": f"What is {sample.input}?"}]
        reply = await sampler.generate(messages)
        if sample.id == "p07":
            await sampler.generate("Are you sure?")
        # What is returned is not what the model wrote.
        return reply.text.strip()

    @pytest.mark.crucible(dataset=GATE, metrics=["exact_match"])
    async def test_gate(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=scripted", "--compare=base")
DPO = ("--what", "dpo", "--on", "exact_match")


def run_both(suite):
    own = {"backend": "scripted", "script": "scripts:answer", "trained_on": ["old.jsonl"]}
    suite.script(SCRIPTS, others={"scripted": own})
    suite.write_rows("old.jsonl", [{"prompt": "1 + 1", "completion": "2"}])
    suite.test(TEST)
    result = suite.run(*ARMS)
    # Two experiments; the practice one asks no baseline and gives no verdict, although its module has both markers.
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("test_sums.py::test_practice::*")


@pytest.fixture
def stored(suite, monkeypatch):
    suite.prepare_once(run_both)
    monkeypatch.chdir(suite.path)
    return suite


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def export(*arguments: str) -> int:
    return main(["export", *arguments])


def test_pairs_have_the_prompt_as_sent_with_card_and_origins(stored, capsys):
    assert export(*DPO, "-o", "pairs.jsonl", "--holdout", "0.2") == 0

    output = capsys.readouterr().out
    pairs, origins = rows(stored.path / "pairs.jsonl"), rows(stored.path / "pairs.origins.jsonl")
    held_out, card = rows(stored.path / "pairs.holdout.jsonl"), json.loads(Path("pairs.card.json").read_text())
    assert len(pairs) == len(origins) == card["rows"]
    for pair, origin in zip(pairs, origins, strict=True):
        number = int(origin["sample"][1:])
        assert [message["content"] for message in pair["prompt"]] == ["Add.", f"What is {number} + {number}?"]
        assert pair["chosen"][0]["content"] == str(2 * number)
        assert pair["rejected"][0]["content"] in ("no idea", "12 and th")
        assert (origin["arm"], origin["variant"], origin["chosen"]) == ("scripted", 0, "gold")
    # p05 is lost, p07 has two calls, and p18 and p19 are samples of the gate, too.
    held_out_origins = rows(stored.path / "pairs.holdout.origins.jsonl")
    samples = {origin["sample"] for origin in [*origins, *held_out_origins]}
    assert samples == {f"p{k:02}" for k in range(18)} - {"p05", "p07"}
    groups, held_out_groups = ({int(of["sample"][1:]) // 2 for of in each} for each in (origins, held_out_origins))
    assert (len(groups), len(held_out_groups), groups & held_out_groups) == (7, 2, set())
    assert len(held_out) == len(held_out_origins)
    assert "4 left out: also a sample of a gate (--allow-gate-samples)" in output
    assert card["left_out"] == {
        "also a sample of a gate (--allow-gate-samples)": 4,
        "equal to an earlier row": 1,
        "lost": 2,
        "several calls in one sample": 2,
    }
    assert (card["gate_rows"], card["datasets"][0]["licence"]) == (0, "not declared")
    check_stored(stored.path, card, (stored.path / "pairs.origins.jsonl").read_text())


def check_stored(path: Path, card: dict[str, Any], origins: str) -> None:
    sha256 = hashlib.sha256((path / "pairs.jsonl").read_bytes()).hexdigest()
    with closing(sqlite3.connect(path / ".crucible/crucible.db")) as connection:
        query = "select card, origins from training_sets where sha256 = ?"
        [(stored_card, stored_origins)] = connection.execute(query, (sha256,))
    assert sha256 == card["sha256"]
    assert json.loads(stored_card) == card
    assert zlib.decompress(stored_origins).decode() == origins


def test_a_run_records_what_its_arms_were_trained_on(stored, capsys):
    with closing(sqlite3.connect(stored.path / ".crucible/crucible.db")) as connection:
        [(plan,)] = connection.execute("select plan from experiments where nodeid like '%gate'")
    scripted, base = json.loads(plan)["arms"]

    assert scripted["trained_on"] == {hashlib.sha256(Path("old.jsonl").read_bytes()).hexdigest(): "old.jsonl"}
    assert base["trained_on"] == {}
    Path("old.jsonl").unlink()
    stored.refuses(stored.run(*ARMS), "*adapter 'scripted' has trained_on = [[]'old.jsonl']*correct the path*")


def test_equal_runs_and_seeds_give_equal_bytes(stored):
    export(*DPO, "-o", "first.jsonl", "--holdout", "0.2")
    stored.run(*ARMS, "--crucible-fresh")
    export(*DPO, "-o", "second.jsonl", "--holdout", "0.2")
    export(*DPO, "-o", "other.jsonl", "--holdout", "0.2", "--seed", "1")

    files = {name: (stored.path / f"{name}.holdout.jsonl").read_bytes() for name in ("first", "second", "other")}
    assert (stored.path / "first.jsonl").read_bytes() == (stored.path / "second.jsonl").read_bytes()
    assert files["first"] == files["second"] != files["other"]


def test_without_a_file_rows_are_counted(stored, capsys):
    before = sorted(stored.path.iterdir())
    assert export("--what", "kto", "--on", "exact_match", "--json") == 0
    counted = json.loads(capsys.readouterr().out)
    export("--what", "sft")

    assert (counted["rows"], counted["files"], sorted(stored.path.iterdir())) == (31, {}, before)
    assert capsys.readouterr().out.startswith("17 rows of --what sft from 40 replies of 1 run\n")


def test_samples_of_gates_need_a_flag_also_by_replay(stored, capsys):
    everything = ("--what", "sft", "--allow-gate-samples")
    assert export(*everything, "-o", "all.jsonl") == 0
    card = json.loads(Path("all.card.json").read_text())
    assert (card["gate_rows"], card["allow_gate_samples"]) == (14, True)
    copied = stored.path / "copied.jsonl"
    copied.write_text('{"prompt": "20  + 20", "completion": "40"}\n', encoding="utf-8")
    capsys.readouterr()

    for old, count in (("all.jsonl", "14 of 31"), ("copied.jsonl", "1 of 1")):
        assert export("--what", "sft", "--replay", "0.5", old) == 4
        assert f"{count} rows of {old} are samples of a gate" in capsys.readouterr().err
    assert export(*everything, "--replay", "0.2", "all.jsonl") == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--what", "kto", "--format", "openai"), "openai has no KTO format: use --format trl"),
        (("--what", "dpo"), "--what=dpo needs --on METRIC, which decides what passed: exact_match"),
        ((*DPO[:3], "exact"), "--on=exact: these experiments have no metric 'exact': did you mean 'exact_match'?"),
        ((*DPO[:3], "zz"), "--on=zz: these experiments have no metric 'zz': there are exact_match"),
        ((*DPO, "--of", "v9"), "--of=v9: no such arm in these runs: there are scripted"),
        (
            ("--what", "sft", *DPO[2:], "--gap", "2"),
            "--gap is for pairs of replies, and --what sft has none: remove it, or",
        ),
        ((*DPO, "--gap", "2"), "no chosen and rejected reply are 2 apart: lower --gap, or raise epochs"),
        (("--what", "replies"), "--what replies needs -o FILE: name a file that ends in .csv, .jsonl, .parquet"),
        (("--gap", "2", "-o", "x.csv"), "--gap is for training sets, and --what observations is a table"),
        (("a", "b", "-o", "x.csv"), "--what observations is a table of one run, not of 2"),
        ((*DPO, "-o", "nowhere/x.jsonl"), "'nowhere/x.jsonl' cannot be written: No such file or directory"),
    ],
)
def test_invalid_settings_are_one_sentence(stored, arguments, sentence, capsys):
    assert export(*arguments) == 4
    error = capsys.readouterr().err
    assert error.startswith(f"crucible export: {sentence}")
    assert error.count("\n") == 1


def test_a_run_without_practice_samples_or_pairs_says_what_to_do(stored, capsys):
    stored.run(*ARMS, "-k", "gate", "--crucible-fresh")
    assert export(*DPO) == 4
    assert 'has no practice samples: set purpose="practice"' in capsys.readouterr().err
    stored.run("--crucible-adapter=base", "-k", "practice")
    stored.script(SCRIPTS.replace('"no idea"', "str(2 * number)").replace('"12 and th", finish="length"', '"12"'))
    stored.run("--crucible-adapter=scripted", "-k", "practice", "--crucible-fresh")
    assert export(*DPO) == 4
    sentence = "no sample has both a chosen and a rejected reply: raise epochs, or use --what kto"
    assert capsys.readouterr().err == f"crucible export: {sentence}\n"


@pytest.mark.parametrize(
    ("argument", "target", "sentence"),
    [
        ("purpose='train'", "", "@pytest.mark.crucible has purpose='train': write 'practice', or leave it out"),
        ("purpose='practice'", '@pytest.mark.quality_target("exact_match >= 0")', "which gives no verdict: remove"),
    ],
)
def test_an_invalid_purpose_is_refused(suite, argument, target, sentence):
    suite.test(f"""
        import pytest

        {target}
        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], {argument})
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
    """)

    suite.refuses(suite.run("--crucible-adapter=v1"), f"*{sentence}*")


@pytest.mark.slow
def test_a_training_set_from_postgresql_is_that_of_sqlite(suite, postgresql, monkeypatch, capsys):
    run_both(suite)
    suite.run(*ARMS, f"--crucible-store={postgresql}")
    monkeypatch.chdir(suite.path)
    for name, store in (("file", ".crucible/crucible.db"), ("server", postgresql)):
        assert export(*DPO, "-o", f"{name}.jsonl", "--store", store) == 0

    assert Path("file.jsonl").read_bytes() == Path("server.jsonl").read_bytes()
    sha256 = json.loads(Path("server.card.json").read_text())["sha256"]
    with contextlib.closing(RunStore(postgresql)) as store:
        card, origins = find_training_set(store, sha256) or ({}, "")
    assert (card, origins) == (
        json.loads(Path("server.card.json").read_text()),
        Path("server.origins.jsonl").read_text(),
    )
