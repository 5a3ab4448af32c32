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


def compare(suite, *options):
    """Run a session that writes run.json, and what it printed to output.txt."""
    result = suite.run(*BOTH, "--crucible-json=run.json", *options)
    (suite.path / "output.txt").write_text(result.stdout.str(), encoding="utf-8")


def read_document(suite):
    """Return what the session of the fixture has written."""
    return json.loads((suite.path / "run.json").read_text(encoding="utf-8"))


def read_output(suite):
    return pytest.LineMatcher((suite.path / "output.txt").read_text(encoding="utf-8").splitlines())


def compare_rounds(suite):
    # The command line overrides the configuration.
    compare(write_suite(suite, ours=[0.2, 0.9, 0.3], theirs=[0.9]), ROUNDS, "-o", "crucible_rounds=1")


@pytest.fixture
def in_rounds(suite):
    """A session of three rounds: most of the samples agree in every one, all together would prove a regression."""
    suite.prepare_once(compare_rounds)
    return suite


# -- rounds ---------------------------------------------------------------------------------------------------------


def test_a_difference_that_comes_and_goes_between_rounds_is_not_proven(in_rounds):
    compared = comparison(read_document(in_rounds))

    assert compared["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert compared["method"] == "crossed t"
    assert compared["p_value"] > 0.05
    assert compared["low"] < 0 < compared["high"]


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


def test_a_round_begins_when_the_one_before_has_ended(in_rounds):
    rounds = [int(line.split()[2]) for line in in_rounds.calls()]

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
def test_a_rerun_calls_no_model(in_rounds, workers):
    first = comparison(read_document(in_rounds))
    in_rounds.forget_calls()

    again = comparison(in_rounds.json(*workers, *BOTH, ROUNDS, "--crucible-resume"))

    assert in_rounds.calls() == []
    assert again == first


def test_replies_are_not_reused_across_rounds(suite):
    """Three repeats that were asked for together are stored; three rounds need two more of each."""
    write_suite(
        suite, ours=[0.5], theirs=[0.5], facts=", limit=5, epochs=int(__import__('os').environ.get('EPOCHS', '1'))"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EPOCHS", "3")
        suite.run(*BOTH)
    suite.forget_calls()

    suite.run(*BOTH, ROUNDS, "--crucible-resume")

    assert sorted({line.split()[2] for line in suite.calls()}) == ["1", "2"]
    assert len(suite.calls()) == 20


def test_more_rounds_send_only_the_missing_requests(in_rounds):
    in_rounds.forget_calls()

    in_rounds.run(*BOTH, "--crucible-rounds=5", "--crucible-resume")

    assert sorted({line.split()[2] for line in in_rounds.calls()}) == ["3", "4"]


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


def compare_prompts(suite):
    compare(write_prompts(suite))


@pytest.fixture
def prompted(suite):
    """A session of three prompts."""
    suite.prepare_once(compare_prompts)
    return suite


def cross(suite):
    compare(write_prompts(suite), ROUNDS, "--crucible-report=report.md", "--crucible-report=report.tex")


@pytest.fixture
def crossed(suite):
    """A session of three prompts in three rounds, with two reports."""
    suite.prepare_once(cross)
    return suite


def test_every_sample_is_sent_with_every_prompt(prompted):
    assert len(prompted.calls()) == len(set(prompted.calls())) == 20 * 3 * 2
    assert count_calls(prompted) == [(arm, name) for arm in ("answer", "base") for name in ("polite", "steps", "terse")]
    read_output(prompted).fnmatch_lines(
        [
            "*20 samples x 3 prompts x 2 arms = 120",
            "  3 prompts: their noise widens every interval; this run measures by how much",
        ]
    )


def test_a_difference_of_single_prompts_is_not_proven_for_others_like_them(prompted):
    random = comparison(read_document(prompted))
    fixed = comparison(write_prompts(prompted, facts=', fixed="prompts"').json(*BOTH))

    assert random["difference"] == fixed["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert random["p_value"] > 0.05 > fixed["p_value"]
    assert (random["method"], fixed["method"]) == ("crossed t", "sign flips")


def test_prompts_and_rounds_are_crossed(crossed):
    first = comparison(read_document(crossed))

    assert len(crossed.calls()) == 20 * 3 * 3 * 2
    assert first["difference"] == pytest.approx(-0.4333, abs=1e-4)
    crossed.forget_calls()
    assert comparison(crossed.json(*BOTH, ROUNDS, "--crucible-resume")) == first
    assert crossed.calls() == []


def test_a_stored_baseline_sends_no_request(prompted):
    prompted.forget_calls()

    result = prompted.run(*BOTH)

    assert {line.split()[0] for line in prompted.calls()} == {"answer"}
    result.stdout.fnmatch_lines(["*base: 60 of 60 replies reused from run*"])


def test_a_changed_prompt_is_sent_again(prompted):
    (prompted.path / "polite.txt").write_text("polite: please say what is ")
    prompted.forget_calls()

    prompted.run(*BOTH, "--crucible-resume")

    assert ("base", "polite") in count_calls(prompted)


def test_a_stored_run_is_compared_prompt_by_prompt(prompted):
    first = read_document(prompted)["run"]["id"]
    prompted.forget_calls()

    document = prompted.json("--crucible-adapter=base", f"--compare=run:{first}")

    assert comparison(document)["difference"] == pytest.approx(0.4333, abs=1e-4)
    assert {line.split()[0] for line in prompted.calls()} == {"base"}


def test_a_stored_run_with_other_prompts_is_refused(prompted):
    run = read_document(prompted)["run"]["id"]
    (prompted.path / "polite.txt").write_text("polite: please say what is ")

    prompted.refuses(prompted.run("--crucible-adapter=base", f"--compare=run:{run}"), "*prompts changed since run*")


def test_lost_replies_to_one_prompt_are_sent_again_on_resume(suite):
    write_prompts(suite)
    suite.write_rows("questions.jsonl", [{"id": f"q{k:02}", "input": f"{k} + {k}"} for k in range(2, 6)])
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
    suite.test(PROMPTED.format(prompts=[f"prompts/{name}" for name in PROMPTS], facts=", limit=4"))

    suite.run(*BOTH)

    assert len(suite.calls()) == 24


def test_prompts_of_several_sessions_are_not_pooled(suite):
    write_prompts(suite, facts=', fixed="prompts"')

    result = suite.run(*BOTH, "-o", "crucible_memory=pool")

    suite.refuses(result, "*combines replies to one prompt, so prompts= cannot be used: leave one of them out*")


# -- what others read -----------------------------------------------------------------------------------------------


def test_stored_runs_resolve_the_number_of_a_repeat(crossed, monkeypatch):
    from pytest_crucible import runs

    monkeypatch.chdir(crossed.path)
    stored = runs.load(store=crossed.path / ".crucible/crucible.db")

    resolved = stored.observations().merge(stored.repeats(), on=["run", "experiment", "arm", "repeat"])

    assert len(resolved) == 20 * 3 * 3 * 2
    rates = resolved[resolved["arm"] == "scripted"].groupby("prompt")["value"].mean()
    assert rates.to_dict() == {"polite.txt": 0.9, "steps.txt": 0.3, "terse.txt": 0.2}
    assert sorted(resolved["round"].unique()) == [0, 1, 2]
    assert len(stored.replies().drop_duplicates(["arm", "sample", "repeat"])) == len(resolved)


def test_a_conversation_names_its_prompt_and_round(crossed, crucible):
    status, out, _ = crucible("show", "latest", "--sample", "q05")
    lines = out.splitlines()

    assert status == 0
    printed = "\n".join(lines)
    assert "scripted, terse.txt, round 1: answered (ok = False)" in printed
    assert "scripted, polite.txt, round 3: answered (ok = True)" in printed
    assert "steps: what is 5 + 5" in printed


def test_two_stored_runs_are_compared_by_the_prompts_that_both_have(prompted, crucible):
    first = read_document(prompted)["run"]["id"]
    second = write_prompts(prompted, prompts=[*PROMPTS[1:], PROMPTS[0]]).json(*BOTH)["run"]["id"]

    _, out, _ = crucible("compare", second, f"{first}:base", "--json")

    assert comparison(json.loads(out))["difference"] == pytest.approx(-0.4333, abs=1e-4)
    assert comparison(json.loads(out))["method"] == "crossed t"


def test_the_sources_of_noise_are_shown(crossed):
    read_output(crossed).fnmatch_lines(
        [
            "noise in ok: scripted vs base *levels *standard deviation *with twice as many",
            "prompts *3  0.* [[]0.*] *±0.*",
            "*ok: scripted vs base: * more prompts halve the t interval, from ±* to ±*",
        ]
    )
    assert "| `prompts` | 3 | " in (crossed.path / "report.md").read_text(encoding="utf-8")
    assert "noise in ok: scripted vs base" in (crossed.path / "report.tex").read_text(encoding="utf-8")
