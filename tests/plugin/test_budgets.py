"""Budgets of runs and experiments in a session."""

from __future__ import annotations

import pytest
from run_documents import of_arms

TEN_TOKENS = """
    from pytest_crucible import Reply

    def answer(request):
        with open("calls.txt", "a") as file:
            file.write(f"{request.arm} {request.sample}\\n")
        return Reply(text="4", input_tokens=10, output_tokens=10)

    def base(request):
        "Another checkpoint."
        return answer(request)
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"]{more})
    @pytest.mark.quality_target("exact_match >= 0.01")
    @pytest.mark.ab_compare("exact_match")
    async def test_{name}(sample, sampler):
        return await sampler.generate(sample.input, max_tokens=10)
"""
PAID = '[adapters.paid]\nbackend = "scripted"\nscript = "scripts:answer"\nprice = { input = 100, output = 400 }\n'
"""A request of ten and ten tokens takes 0.005 USD."""


@pytest.fixture
def asking(suite):
    def write(others=None, **tests):
        suite.script(TEN_TOKENS, others=others)
        for name, more in (tests or {"sums": ""}).items():
            suite.test(TEST.format(name=name, more=more), name=f"test_{name}")

    write()
    return write


def add(suite, text):
    path = suite.path / "crucible.toml"
    path.write_text(path.read_text() + text)


def test_a_spent_budget_leaves_the_rest_lost_and_the_verdict_undecided(asking, suite, run):
    result = run("--crucible-adapter=scripted", "--crucible-budget=8 requests")

    assert len(suite.calls()) == 8
    result.stdout.fnmatch_lines(["*exact_match >= 0.01*12*undecided*", "*budget * 8 of 8 requests spent"])
    assert result.ret == 0


def test_lost_samples_say_why(asking, suite):
    document = suite.json("--crucible-adapter=scripted", "--crucible-budget=8 requests")

    assert of_arms(document["experiments"][0], "lost")[0] == {"budget": 12}
    (spent,) = document["run"]["budgets"]
    assert (spent["experiment"], spent["budget"], spent["requests"]) == ("", "8 requests", 8)
    assert spent["said"] == "8 of 8 requests spent"


@pytest.mark.parametrize("arguments", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_all_experiments_of_a_run_share_its_budget(asking, suite, arguments):
    asking(sums="", more_sums="", other_sums="")
    result = suite.run("--crucible-adapter=scripted", "--crucible-budget=50 requests", *arguments)

    assert len(suite.calls()) == 50
    result.stdout.fnmatch_lines(["*budget * 50 of 50 requests spent"])


def test_an_experiment_may_have_its_own(asking, suite, run):
    asking(sums=", budget='5 requests'", more_sums="")
    result = run("--crucible-adapter=scripted", "--crucible-budget=1000 requests")

    assert len(suite.calls()) == 25
    result.stdout.fnmatch_lines_random(
        ["*budget * test_sums.py::test_sums: 5 of 5 requests spent", "*budget * 25 of 1,000 requests spent"]
    )


def test_dollars_are_counted_at_the_price_of_the_adapter(asking, suite, run):
    add(suite, PAID)
    result = run("--crucible-adapter=paid", "--crucible-budget=0.052 USD")

    assert len(suite.calls()) == 10
    result.stdout.fnmatch_lines(["*budget * 0.05 of 0.052 USD spent, in 10 requests"])


def test_the_cost_of_a_reply_is_a_score(asking, suite):
    suite.test(
        TEST.format(name="sums", more="")
        .replace('["exact_match"]', '["cost_usd"]')
        .replace("exact_match >= 0.01", "cost_usd <= 0.0051")
        .replace('ab_compare("exact_match")', 'ab_compare("cost_usd")')
    )
    add(suite, PAID)

    suite.run("--crucible-adapter=paid").stdout.fnmatch_lines(["cost_usd <= 0.0051 *0.0050*"])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", "[pytest]\ncrucible_budget = 8 requests"),
        ("pytest.ini", "[pytest]\ncrucible_budget =\n  900k tokens\n  8 requests"),
        ("pyproject.toml", '[tool.pytest.ini_options]\ncrucible_budget = ["900k tokens", "8 requests"]'),
        ("pyproject.toml", '[tool.pytest]\ncrucible_budget = "8 requests"'),
        ("pyproject.toml", '[tool.pytest]\ncrucible_budget = ["900k tokens", "8 requests"]'),
    ],
    ids=["ini", "ini-lines", "ini_options-list", "native-string", "native-list"],
)
def test_a_budget_in_the_configuration_equals_the_option(asking, suite, file, text):
    if "[tool.pytest]" in text and pytest.version_tuple < (9, 0):
        pytest.skip("pytest reads this table since 9.0")
    (suite.path / "pytest.ini").unlink(missing_ok=True)
    (suite.path / file).write_text(text, encoding="utf-8")
    suite.run("--crucible-adapter=scripted")

    assert len(suite.calls()) == 8


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest reads this table since 9.0")
def test_a_budget_of_another_type_in_the_configuration_is_refused(asking, suite):
    (suite.path / "pytest.ini").unlink(missing_ok=True)
    (suite.path / "pyproject.toml").write_text("[tool.pytest]\ncrucible_budget = [8]", encoding="utf-8")
    result = suite.run("--crucible-adapter=scripted")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*crucible_budget in pytest's configuration is not a valid string, nor a list of them: *"]
    )


def test_a_resumed_run_has_a_budget_of_its_own(asking, suite):
    suite.run("--crucible-adapter=scripted", "--crucible-budget=8 requests")
    suite.forget_calls()
    suite.run("--crucible-adapter=scripted", "--crucible-budget=12 requests", "--crucible-resume")

    assert len(suite.calls()) == 12


# -- invalid budgets ---------------------------------------------------------------------------------------------------


def test_a_budget_below_one_sample_is_refused(asking, suite, run):
    result = run("--crucible-adapter=scripted", "--compare=base", "--crucible-budget=1 request")

    assert suite.calls() == []
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*a budget of 1 request does not pay for one sample in 2 arms, which may take 2 requests*"]
    )


def test_a_budget_that_cannot_be_read_is_refused(asking, suite, run):
    result = run("--crucible-adapter=scripted", "--crucible-budget=five USD")

    suite.refuses(result, "*budget 'five USD' cannot be read: write '5 USD', '200k tokens' or '1000 requests'")


def test_dollars_for_a_model_of_unknown_price(asking, suite, run):
    result = run("--crucible-adapter=scripted", "--crucible-budget=5 USD")

    suite.refuses(result, "*a budget of 5 USD needs the price of adapter 'scripted', which is unknown: write price = *")
    assert suite.calls() == []


def test_invalid_prices_are_refused(asking, suite):
    add(suite, '[prices."m"]\ninput = 1\n')

    suite.refuses(
        suite.run("--crucible-adapter=scripted"), "*[[]prices.'m'] is {'input': 1}, which is not a price: write *"
    )
