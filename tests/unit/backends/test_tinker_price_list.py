"""The price list of Tinker, as tables of a project's configuration."""

from __future__ import annotations

import json
import tomllib

import pytest

from pytest_crucible.backends.spending import Price, Prices
from pytest_crucible.backends.tinker.price_list import price_lines, read_price_list
from pytest_crucible.cli import main
from pytest_crucible.features.stages.forecasts import PlannedRequest, UnsentReply, estimate_arm
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

ROWS = [
    {
        "tinker_id": "Qwen/Qwen3-8B",
        "prefill": "$0.13",
        "cached_prefill": "$0.026",
        "sample": "$1,000.40",
        "train": "$1",
    },
    {"tinker_id": "no/price", "prefill": "-", "cached_prefill": "$1", "sample": "$1"},
]


@pytest.fixture
def price_file(tmp_path):
    path = tmp_path / "models.json"
    path.write_text(json.dumps(ROWS))
    return str(path)


def test_the_tables_are_read_as_prices(price_file):
    models = read_price_list(price_file)
    table = tomllib.loads("\n".join(price_lines(models)))["prices"]

    assert list(models) == ["Qwen/Qwen3-8B"]
    of_base = Prices(table).of(Adapter(name="v2", backend="tinker"), "tinker://r/s/x", bases=["tinker:Qwen/Qwen3-8B"])
    assert of_base == Price(0.13, 1000.4, 0.026)


def test_the_command_prints_tables_of_models(price_file, capsys):
    assert main(["tinker", "prices", "Qwen/Qwen3-8B", "--from", price_file]) == 0
    assert capsys.readouterr().out.startswith('[prices."tinker:Qwen/Qwen3-8B"]\ninput = 0.13\n')
    assert main(["tinker", "prices", "other", "--from", price_file]) == 4
    assert "the price list has no other: it has Qwen/Qwen3-8B" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "cannot be read as a price list"), ('{"a": 1}', "is not a price list"), ("[3]", "is not a price list")],
)
def test_what_is_not_a_price_list_is_refused(tmp_path, text, sentence):
    (tmp_path / "models.json").write_text(text)
    with pytest.raises(SpecError, match=sentence):
        read_price_list(str(tmp_path / "models.json"))
    with pytest.raises(
        SpecError, match=r"http://127.0.0.1:9/models.json gives no price list: .* name the file with --from"
    ):
        read_price_list("http://127.0.0.1:9/models.json")


def test_prompts_with_one_beginning_may_cost_less():
    """A hundred prompts of 1,000 characters, of which 900 are the same: the lower end pays for these once."""

    def cost(cached: float | None):
        requests = [
            PlannedRequest(1_000, 0.0, 1e-6, 1e-6, cached, "" if cached is None else "x" * 900 + f"{k:03}" + "y" * 97)
            for k in range(100)
        ]
        replies = [UnsentReply(1, (request,)) for request in requests]
        return estimate_arm("t", "v2", stored=0, replies=replies, past=None, concurrency=1).amounts

    plain, saving = cost(None), cost(1e-7)
    assert saving.usd.value == plain.usd.value
    assert saving.usd.high == plain.usd.high
    assert saving.usd.low / plain.usd.low == pytest.approx(1 - 0.9 * 0.9, abs=0.02)
    assert "may be cached" in saving.basis
    assert "may be cached" not in plain.basis
