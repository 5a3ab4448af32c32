"""Names of arms with escapes for terminals and characters that turn text around: no place shows them as they are."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

ESCAPES = "v2\x1b[31m\x1b]0;title\x07\u202eevil\u2066\u200b"
OLD = "v1\u202e\x1b[2J\nnext"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
REPORTS = ("run.html", "run.md", "run.tex", "run.ipynb")
SUITE = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.99")
    @pytest.mark.ab_compare("exact_match", margin=0.05)
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.fixture
def named(suite):
    suite.adapters(
        {name: {"backend": "recorded", "path": f"answers/{v}.jsonl"} for name, v in ((ESCAPES, "v2"), (OLD, "v1"))}
    )
    suite.test(SUITE)
    return suite


@pytest.mark.parametrize("more", [(), ("-v",), ("-vv", "-rA")], ids=str)
def test_the_terminal_shows_no_control_character_of_an_arms_name(named, more):
    result = named.run(f"--crucible-adapter={ESCAPES}", f"--compare={OLD}", *more)

    output = result.stdout.str() + result.stderr.str()
    assert RAW.findall(COLOURS.sub("", output.replace("\r\n", "\n"))) == []
    assert "\x1b[31m\x1b]" not in output
    assert "v2\\x1b[31m\\x1b]0;title\\x07\\u202eevil" in output
    assert "\nnext" not in output


def test_no_file_has_a_control_character_of_an_arms_name(named):
    files = [f"--crucible-report={name}" for name in REPORTS]
    named.run(f"--crucible-adapter={ESCAPES}", f"--compare={OLD}", "--junitxml=junit.xml", *files)

    for name in (*REPORTS, "junit.xml"):
        text = (named.path / name).read_text(encoding="utf-8")
        output = "".join(json_texts(text)) if name.endswith("ipynb") else text
        assert RAW.findall(output) == [], name
    ElementTree.parse(named.path / "junit.xml")


def json_texts(document: str):
    for cell in json.loads(document)["cells"]:
        yield from cell["source"]
