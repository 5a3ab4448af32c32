"""--crucible-estimate tells what a run would take, and sends and stores nothing."""

from __future__ import annotations

import json
import re

import pytest

TEST = """
    import pytest

    SAMPLES = [{{"id": f"s{{k}}", "input": f"question {{k}} " + "x" * 40}} for k in range({samples})]

    @pytest.mark.crucible(dataset=SAMPLES)
    @pytest.mark.ab_compare("ok")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        {more}
        score(ok=reply.text == "right")
"""
MODEL = """
    import random
    from pytest_crucible import Reply

    class Model:
        simulated = False

        def __init__(self, name):
            self.identity = name

        async def generate(self, request):
            with open("calls.txt", "a") as file:
                file.write(self.identity + chr(10))
            tokens = random.Random(request.sample).randint(50, 150)
            return Reply(text="right", input_tokens=20, output_tokens=tokens, latency_s=0.5)

    def pytest_crucible_backend(adapter):
        return Model(adapter.name) if adapter.backend == "model" else None
"""
BOTH = ("--crucible-adapter=v2", "--compare=v1")
PRICE = "{ input = 1.0, output = 10.0 }"
LIMIT = "{ max_tokens = 100 }"


@pytest.fixture
def written(suite):
    def write(samples=40, more="", priced=False, limited=False):
        suite.pytester.makeconftest(MODEL)
        suite.adapters({name: {"backend": "model"} for name in ("v2", "v1")})
        config = suite.path / "crucible.toml"
        facts = (f"price = {PRICE}\n" if priced else "") + (f"parameters = {LIMIT}\n" if limited else "")
        config.write_text(config.read_text().replace('backend = "model"\n', f'backend = "model"\n{facts}'))
        suite.test(TEST.format(samples=samples, more=more))
        return suite

    return write


def rows(result):
    """Arm -> the cells of its row."""
    table = {}
    for line in result.outlines:
        cells = re.split(r" {2,}", line.strip())
        if len(cells) == 8 and cells[0] in ("v2", "v1"):
            table[cells[0]] = cells[1:]
    return table


def test_nothing_is_sent_and_nothing_is_stored(written):
    suite = written(limited=True, priced=True)
    result = suite.run(*BOTH, "--crucible-estimate")

    assert result.ret == 0
    assert suite.calls() == []
    assert rows(result)["v2"][:4] == ["40", "0", "0", "40"]
    result.stdout.fnmatch_lines(
        [
            "estimate, with intervals of 90 %: nothing was sent",
            "  v2: the prompts, and max_tokens a reply; only the first request of each reply is known",
        ]
    )
    again = suite.run(*BOTH, "--crucible-resume", "--crucible-estimate")
    assert rows(again) == rows(result)


def test_prompts_and_limits_bound_what_an_unknown_run_costs(written):
    suite = written(limited=True, priced=True)
    tokens, cost = rows(suite.run(*BOTH, "--crucible-estimate"))["v2"][4:6]

    # 40 prompts of 51 or 52 characters, and replies of at most 100 tokens.
    assert tokens == "2,518 [414, 4,690]"
    assert cost == "$0.021 [$0.00041, $0.041]"


@pytest.mark.slow
def test_an_estimate_uses_reply_lengths_of_an_earlier_run(written):
    suite = written(samples=40, priced=True)
    suite.run(*BOTH)
    suite.test(TEST.format(samples=200, more=""))
    before = len(suite.calls())
    forecast = suite.run(*BOTH, "--crucible-estimate", "--crucible-cache=off")
    low, high = map(number, re.search(r"\[(.*), (.*)\]", rows(forecast)["v2"][4]).groups())
    assert len(suite.calls()) == before
    suite.run(*BOTH, "--crucible-cache=off", "--crucible-json=r.json")
    forecast.stdout.re_match_lines([r"  v2: as v2 in run \w+ of [\d-]+ \(40 replies\)"])

    took = next(
        usage
        for usage in json.loads((suite.path / "r.json").read_text())["experiments"][0]["sections"]["usage"]
        if usage["arm"] == "v2"
    )
    assert low <= took["input_tokens"] + took["output_tokens"] <= high


def test_what_is_stored_or_cached_is_not_sent_again(written):
    suite = written(priced=True)
    suite.run(*BOTH)
    result = suite.run(*BOTH, "--crucible-estimate")

    assert rows(result)["v2"][:4] == ["40", "0", "40", "0"]
    assert rows(result)["v1"][:4] == ["40", "40", "0", "0"]
    result.stdout.fnmatch_lines(["  v1: nothing to send"])


def test_an_estimate_counts_later_turns_of_an_earlier_run(written):
    suite = written(more='reply = await sampler.generate("again " + reply.text + sample.id)')
    suite.run(*BOTH)
    suite.test(TEST.format(samples=80, more='reply = await sampler.generate("again " + reply.text + sample.id)'))
    result = suite.run(*BOTH, "--crucible-estimate", "--crucible-cache=off")

    assert rows(result)["v2"][3] == "160"


@pytest.mark.parametrize(
    ("budget", "status", "sentence"), [("41 requests", 1, "may be too little (requests)"), ("80 requests", 0, "enough")]
)
def test_an_estimate_above_the_budget_exits_1(written, budget, status, sentence):
    result = written().run(*BOTH, "--crucible-estimate", f"--crucible-budget={budget}")

    assert result.ret == status
    result.stdout.fnmatch_lines([f"budget   {budget}: {sentence}"])


def test_an_unknown_price_is_not_0(written):
    result = written(limited=True).run(*BOTH, "--crucible-estimate")

    assert rows(result)["v2"][5] == "unknown"


def test_a_test_that_catches_every_exception_sends_nothing_either(written):
    suite = written()
    suite.test("""
        import asyncio
        import pytest

        @pytest.mark.crucible(dataset=[{"id": "a", "input": "one"}, {"id": "b", "input": "two"}])
        async def test_sums(sample, sampler):
            try:
                async with asyncio.TaskGroup() as group:
                    both = [group.create_task(sampler.generate(text)) for text in ("one", "two")]
                return both[0].result()
            except Exception:
                return "caught"
    """)
    result = suite.run("--crucible-adapter=v2", "--crucible-estimate")

    assert result.ret == 0
    assert suite.calls() == []
    assert rows(result)["v2"][:4] == ["2", "0", "0", "4"]


def test_a_plain_function_is_estimated_too(written):
    suite = written()
    suite.test(TEST.format(samples=5, more="").replace("async def", "def").replace("await ", ""))
    result = suite.run(*BOTH, "--crucible-estimate")

    assert rows(result)["v2"][:4] == ["5", "0", "0", "5"]


def test_workers_are_refused(written):
    result = written().run(*BOTH, "--crucible-estimate", "-n", "2")

    assert result.ret != 0
    assert (
        "--crucible-estimate sends nothing and needs no workers: leave out -n"
        in result.stdout.str() + result.stderr.str()
    )


def number(text: str) -> float:
    scale = {"k": 1e3, "M": 1e6}.get(text[-1], 1.0)
    return scale * float(text.rstrip("kM").replace(",", ""))
