"""Noise beyond the samples in real sessions: rounds, prompts and trainings as factors that every interval counts."""

from __future__ import annotations

import itertools
import json

import pytest

TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl"{facts})
    @pytest.mark.quality_target("ok >= 0.2", decide="bound")
    @pytest.mark.ab_compare("ok")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(ok=reply.text == "right")
"""
SCRIPTS = """
    import time

    def note(arm, request):
        with open("calls.txt", "a") as file:
            file.write(f"{{arm}} {{request.sample}} {{request.repeat}} {{time.monotonic()}}" + chr(10))

    def reply(arm, request, shares):
        note(arm, request)
        return "right" if int(request.sample[1:]) < 20 * shares[request.repeat % len(shares)] else "wrong"

    def answer(request):
        return reply("answer", request, {ours})

    def base(request):
        return reply("base", request, {theirs})
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base")
ROUNDS = "--crucible-rounds=3"


def write_suite(suite, ours, theirs, facts=""):
    suite.script(SCRIPTS.format(ours=ours, theirs=theirs))
    suite.test(TEST.format(facts=facts))
    return suite


def comparison(document):
    return document["experiments"][0]["comparisons"][0]


# -- rounds ---------------------------------------------------------------------------------------------------------


def test_a_difference_that_comes_and_goes_between_rounds_is_not_proven(suite):
    """Most of the samples agree in every round, and all of them together would prove a regression."""
    write_suite(suite, ours=[0.2, 0.9, 0.3], theirs=[0.9, 0.9, 0.9])

    counted = comparison(suite.json(*BOTH, ROUNDS))
    as_repeats = comparison(suite.json(*BOTH, ROUNDS, "--crucible-cache=off", "-o", "crucible_rounds=1"))

    assert counted["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert as_repeats["difference"] == pytest.approx(counted["difference"], abs=1e-12)
    assert counted["method"] == as_repeats["method"] == "crossed t"
    assert counted["p_value"] > 0.05
    assert counted["low"] < 0 < counted["high"]


def test_fixed_rounds_are_repeats(suite):
    write_suite(suite, ours=[0.2, 0.9, 0.3], theirs=[0.9, 0.9, 0.9], facts=', fixed="rounds"')

    compared = comparison(suite.json(*BOTH, ROUNDS))

    assert compared["method"] == "sign flips"
    assert compared["p_value"] < 0.05


def test_a_difference_that_all_rounds_have_is_proven(suite):
    write_suite(suite, ours=[0.2, 0.25, 0.2], theirs=[0.9, 0.85, 0.9])

    result = suite.run(*BOTH, ROUNDS)

    assert result.ret == 1
    # That every round like these would lose is not proven by three: rare ones may be far better.
    result.stdout.fnmatch_lines(["ok: scripted vs base *missed (simulated)*"])


def test_two_rounds_give_no_verdict_and_say_why(suite):
    write_suite(suite, ours=[0.2, 0.2], theirs=[0.9, 0.9])

    result = suite.run(*BOTH, "--crucible-rounds=2", "-v")

    assert result.ret == 0
    sentence = (
        "2 rounds cannot stand for others like them: a random factor needs at least 3 levels for a verdict; run with"
    )
    result.stdout.fnmatch_lines(
        [
            "*20 samples x 2 rounds x 2 arms = 80",
            "*2 rounds: a random factor needs 3 levels for a verdict (or fixed='rounds':",
        ]
    )
    text = " ".join(result.stdout.str().split())
    assert text.count(sentence) >= 2
    assert "missed" not in text.replace("0 missed", "")


def test_a_round_begins_when_the_one_before_has_ended(suite):
    write_suite(suite, ours=[0.5], theirs=[0.5])
    suite.run(*BOTH, ROUNDS)

    rounds = [int(line.split()[2]) for line in suite.calls()]

    assert len(rounds) == 120
    assert rounds == sorted(rounds)
    assert [number for number, _ in itertools.groupby(rounds)] == [0, 1, 2]


def test_repeats_within_a_round_are_not_rounds(suite):
    """Three rounds of two repeats: replies 0 and 1 are of the first round."""
    write_suite(suite, ours=[0.2, 0.2, 0.9, 0.9, 0.3, 0.3], theirs=[0.9], facts=", epochs=2")

    document = suite.json(*BOTH, ROUNDS)

    assert comparison(document)["p_value"] > 0.05
    assert document["experiments"][0]["repeats"] == 6
    assert [int(line.split()[2]) // 2 for line in suite.calls()] == sorted([0, 1, 2] * 80)


@pytest.mark.parametrize("workers", [(), pytest.param(("-n4",), marks=pytest.mark.slow)], ids=["plain", "n4"])
def test_a_rerun_calls_no_model(suite, workers):
    write_suite(suite, ours=[0.2, 0.9, 0.3], theirs=[0.9])
    first = comparison(suite.json(*BOTH, ROUNDS))
    suite.forget_calls()

    again = comparison(suite.json(*workers, *BOTH, ROUNDS, "--crucible-resume"))

    assert suite.calls() == []
    assert again == first


def test_replies_are_not_reused_across_rounds(suite):
    """Three repeats that were asked for together are stored; three rounds need two more of each."""
    write_suite(suite, ours=[0.5], theirs=[0.5], facts=", epochs=int(__import__('os').environ.get('EPOCHS', '1'))")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EPOCHS", "3")
        suite.run(*BOTH)
    suite.forget_calls()

    suite.run(*BOTH, ROUNDS, "--crucible-resume")

    assert sorted({line.split()[2] for line in suite.calls()}) == ["1", "2"]
    assert len(suite.calls()) == 80


def test_more_rounds_send_only_the_missing_requests(suite):
    write_suite(suite, ours=[0.5], theirs=[0.5])
    suite.run(*BOTH, ROUNDS)
    suite.forget_calls()

    suite.run(*BOTH, "--crucible-rounds=5", "--crucible-resume")

    assert sorted({line.split()[2] for line in suite.calls()}) == ["3", "4"]


def test_a_joined_test_cannot_be_repeated(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_numbers(crucible, number):
            crucible.score(ok=True)
        """
    )

    suite.refuses(
        suite.run(ROUNDS),
        "*--crucible-rounds=3 repeats marked experiments only*",
    )


def test_a_pool_of_sessions_does_not_count_rounds(suite):
    write_suite(suite, ours=[0.5], theirs=[0.5])

    result = suite.run(*BOTH, ROUNDS, "-o", "crucible_memory=pool")

    suite.refuses(
        result, "*would not count the noise of rounds: leave out the setting, or declare fixed=[[]'rounds'[]]*"
    )


def test_a_pool_takes_fixed_rounds_for_repeats(suite):
    write_suite(suite, ours=[0.2, 0.9, 0.3], theirs=[0.9], facts=', fixed="rounds"')

    compared = comparison(suite.json(*BOTH, ROUNDS, "-o", "crucible_memory=pool"))

    assert compared["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert compared["method"] == "sign flips"


# -- prompts --------------------------------------------------------------------------------------------------------

PROMPTS = ("terse.txt", "polite.txt", "steps.txt")
PROMPTED = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", prompts={prompts}{facts})
    @pytest.mark.quality_target("ok >= 0.2", decide="bound")
    @pytest.mark.ab_compare("ok")
    async def test_sums(sample, sampler, prompt, score):
        reply = await sampler.generate(prompt + sample.input)
        score(ok=reply.text == "right")
"""
PROMPT_SCRIPTS = """
    def note(arm, request):
        with open("calls.txt", "a") as file:
            file.write(f"{{arm}} {{request.sample}} {{request.input.partition(':')[0]}}" + chr(10))

    def reply(arm, request, shares):
        note(arm, request)
        return "right" if int(request.sample[1:]) < 20 * shares[request.input.partition(":")[0]] else "wrong"

    def answer(request):
        return reply("answer", request, {ours})

    def base(request):
        return reply("base", request, {theirs})
"""
ALIKE = {"terse": 0.9, "polite": 0.9, "steps": 0.9}
UNLIKE = {"terse": 0.2, "polite": 0.9, "steps": 0.3}


def write_prompts(suite, ours=UNLIKE, theirs=ALIKE, prompts=PROMPTS, facts=""):
    for name in PROMPTS:
        (suite.path / name).write_text(f"{name.removesuffix('.txt')}: what is ")
    suite.script(PROMPT_SCRIPTS.format(ours=ours, theirs=theirs))
    suite.test(PROMPTED.format(prompts=list(prompts), facts=facts))
    return suite


def count_calls(suite):
    return sorted({tuple(line.split()[::2]) for line in suite.calls()})


def test_every_sample_is_sent_with_every_prompt(suite):
    write_prompts(suite)

    result = suite.run(*BOTH)

    assert len(suite.calls()) == len(set(suite.calls())) == 20 * 3 * 2
    assert count_calls(suite) == [(arm, name) for arm in ("answer", "base") for name in ("polite", "steps", "terse")]
    result.stdout.fnmatch_lines(
        [
            "*20 samples x 3 prompts x 2 arms = 120",
            "  3 prompts: their noise widens every interval; this run measures by how much",
        ]
    )


def test_a_difference_of_single_prompts_is_not_proven_for_others_like_them(suite):
    random = comparison(write_prompts(suite).json(*BOTH))
    fixed = comparison(write_prompts(suite, facts=', fixed="prompts"').json(*BOTH))

    assert random["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert fixed["difference"] == pytest.approx(random["difference"], abs=1e-12)
    assert random["p_value"] > 0.05 > fixed["p_value"]
    assert (random["method"], fixed["method"]) == ("crossed t", "sign flips")


def test_prompts_and_rounds_are_crossed(suite):
    write_prompts(suite)

    document = suite.json(*BOTH, ROUNDS)
    first = comparison(document)

    assert len(suite.calls()) == 20 * 3 * 3 * 2
    [fragility, *_] = [verdict["fragility"] for verdict in document["experiments"][0]["verdicts"]]
    assert fragility["undefined"].startswith("prompts and rounds are random as well as samples")
    assert first["difference"] == pytest.approx(-0.4333, abs=1e-4)
    suite.forget_calls()
    assert comparison(suite.json(*BOTH, ROUNDS, "--crucible-resume")) == first
    assert suite.calls() == []


def test_a_stored_baseline_sends_no_request(suite):
    write_prompts(suite)
    suite.run(*BOTH)
    suite.forget_calls()

    result = suite.run(*BOTH)

    assert {line.split()[0] for line in suite.calls()} == {"answer"}
    result.stdout.fnmatch_lines(["*base: 60 of 60 replies reused from run*"])


def test_a_changed_prompt_is_sent_again(suite):
    write_prompts(suite)
    suite.run(*BOTH)
    (suite.path / "polite.txt").write_text("polite: please say what is ")
    suite.forget_calls()

    suite.run(*BOTH, "--crucible-resume")

    assert ("base", "polite") in count_calls(suite)


def test_a_stored_run_is_compared_prompt_by_prompt(suite):
    write_prompts(suite)
    first = suite.json(*BOTH)
    suite.forget_calls()

    document = suite.json("--crucible-adapter=base", f"--compare=run:{first['run']['id']}")

    assert comparison(document)["difference"] == pytest.approx(0.4333, abs=1e-4)
    assert {line.split()[0] for line in suite.calls()} == {"base"}


def test_a_stored_run_with_other_prompts_is_refused(suite):
    write_prompts(suite)
    run = suite.json(*BOTH)["run"]["id"]
    (suite.path / "polite.txt").write_text("polite: please say what is ")

    suite.refuses(suite.run("--crucible-adapter=base", f"--compare=run:{run}"), "*prompts changed since run*")


def test_lost_replies_to_one_prompt_are_sent_again_on_resume(suite):
    write_prompts(suite)
    suite.script(
        PROMPT_SCRIPTS.format(ours=UNLIKE, theirs=ALIKE).replace(
            "        note(arm, request)\n",
            "        note(arm, request)\n"
            "        if not __import__('os').path.exists('mended') and request.sample == 'q03' and request.input[0] == 'p':\n"
            "            raise OSError('down')\n",
        )
    )
    suite.run(*BOTH)
    suite.forget_calls()
    (suite.path / "mended").touch()

    suite.run(*BOTH, "--crucible-resume")

    assert sorted(suite.calls()) == ["answer q03 polite", "base q03 polite"]


def test_one_sample_alone_uses_the_first_prompt(suite):
    write_prompts(suite)

    suite.run("--crucible-adapter=scripted", "--crucible-sample=q03")

    assert suite.calls() == ["answer q03 terse"]


def test_a_fixture_of_that_name_is_the_tests_own_without_prompts(suite):
    write_prompts(suite)
    source = PROMPTED.replace("prompts={prompts}{facts}", "limit=3").format()
    suite.test(source + "\n    @pytest.fixture\n    def prompt():\n        return 'terse: '\n")

    suite.run("--crucible-adapter=scripted")

    assert count_calls(suite) == [("answer", "terse")]


def test_a_prompt_argument_without_prompts_is_an_error(suite):
    write_prompts(suite)
    suite.test(PROMPTED.replace("prompts={prompts}{facts}", "limit=3").format())

    result = suite.run("--crucible-adapter=scripted")

    result.stdout.fnmatch_lines(["*fixture 'prompt' is the text of a file: name two or more in*"])


def test_prompts_may_be_below_the_root_directory(suite):
    write_prompts(suite)
    (suite.path / "prompts").mkdir()
    for name in PROMPTS:
        (suite.path / name).rename(suite.path / "prompts" / name)
    suite.test(PROMPTED.format(prompts=[f"prompts/{name}" for name in PROMPTS], facts=""))

    suite.run(*BOTH)

    assert len(suite.calls()) == 120


def test_prompts_of_several_sessions_are_not_pooled(suite):
    write_prompts(suite, facts=', fixed="prompts"')

    result = suite.run(*BOTH, "-o", "crucible_memory=pool")

    suite.refuses(result, "*combines replies to one prompt, so prompts= cannot be used: leave one of them out*")


# -- what others read -----------------------------------------------------------------------------------------------


def test_stored_runs_resolve_the_number_of_a_repeat(suite, monkeypatch):
    from pytest_crucible import runs

    write_prompts(suite)
    suite.run(*BOTH, ROUNDS)
    monkeypatch.chdir(suite.path)
    stored = runs.load(store=suite.path / ".crucible/crucible.db")

    resolved = stored.observations().merge(stored.repeats(), on=["run", "experiment", "arm", "repeat"])

    assert len(resolved) == 20 * 3 * 3 * 2
    rates = resolved[resolved["arm"] == "scripted"].groupby("prompt")["value"].mean()
    assert rates.to_dict() == {"polite.txt": 0.9, "steps.txt": 0.3, "terse.txt": 0.2}
    assert sorted(resolved["round"].unique()) == [0, 1, 2]
    assert len(stored.replies().drop_duplicates(["arm", "sample", "repeat"])) == len(resolved)


def test_a_conversation_names_its_prompt_and_round(suite, crucible):
    write_prompts(suite)
    suite.run(*BOTH, ROUNDS)

    status, out, _ = crucible("show", "latest", "--sample", "q05")
    lines = out.splitlines()

    assert status == 0
    printed = "\n".join(lines)
    assert "scripted, terse.txt, round 1: answered (ok = False)" in printed
    assert "scripted, polite.txt, round 3: answered (ok = True)" in printed
    assert "steps: what is 5 + 5" in printed


def test_two_stored_runs_are_compared_by_the_prompts_that_both_have(suite, crucible):
    first = write_prompts(suite).json(*BOTH)["run"]["id"]
    second = write_prompts(suite, prompts=[*PROMPTS[1:], PROMPTS[0]]).json(*BOTH)["run"]["id"]

    _, out, _ = crucible("compare", second, f"{first}:base", "--json")

    assert comparison(json.loads(out))["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert comparison(json.loads(out))["method"] == "crossed t"


def test_the_sources_of_noise_are_shown(suite):
    write_prompts(suite)

    result = suite.run(*BOTH, ROUNDS, "--crucible-report=report.md", "--crucible-report=report.tex")

    result.stdout.fnmatch_lines(
        [
            "noise in ok: scripted vs base *levels *standard deviation *with twice as many",
            "prompts *3  0.* [[]0.*] *±0.*",
            "*ok: scripted vs base: no source alone can halve the interval; twice the prompts (6) give ±0.* instead of ±1.0",
        ]
    )
    assert "| `prompts` | 3 | " in (suite.path / "report.md").read_text(encoding="utf-8")
    assert "noise in ok: scripted vs base" in (suite.path / "report.tex").read_text(encoding="utf-8")
