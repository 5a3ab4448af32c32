"""Diagrams as Mermaid itself parses and draws them."""

from __future__ import annotations

import pytest
from hostile_texts import HOSTILE
from mermaid_js import mermaid_js
from timeline_builders import a_call, a_decision, a_graph, a_long_story, a_node, a_timeline

from pytest_crucible.features.provenance.exports.mermaid_graphs import draw_graph
from pytest_crucible.features.provenance.exports.mermaid_timelines import draw_timelines
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.timeline import Step

STYLES = ("flowchart", "sequence", "timeline", "graph")
SYNTAX = (
    *("end", "title x", "section y", "participant z", "subgraph", "style n1", "click n1 call alert()", "Note over a1"),
    *("1. list", "1) list", "- list", "+ list", "# head", "> quote", "__bold__", "`code`", '"`code`"'),
    *("%%{init: {}}%%", "%% remark", "a : b", "a; b", 'a"b', "a|b", "o--o", "{{x}}", "[[x]]", "((x))", "@{ shape: x }"),
    *("---", "$$x^2$$", "#lt;", "&lt;", "ﬂ°lt¶ß", "\\n", "javascript:alert(1)", "日本語 é 😀", "", " "),
    *("<img src=x onerror='hurt = 1'>", "<script>hurt = 1</script>", "<a href='javascript:hurt=1'>x</a>"),
)


@pytest.fixture(scope="module")
def draw():
    with mermaid_js() as function:
        yield function


def without_blanks(texts: list[str]) -> str:
    """All texts without blanks: Mermaid breaks lines."""
    return "".join("".join(texts).split())


@pytest.mark.parametrize("style", STYLES)
def test_mermaid_shows_what_it_would_take_for_syntax(draw, style):
    steps = [a_decision(text, number=k, is_claim=bool(k % 2)) for k, text in enumerate(SYNTAX)]
    graph = Graph(nodes={f"file:{k}": a_node(f"file:{k}", text or "-") for k, text in enumerate(SYNTAX)}, relations=())
    calls = [a_call(text, call=k, prompt=text or "-") for k, text in enumerate(SYNTAX, 1)]

    drawn = without_blanks(draw(draw_timelines([a_timeline(*steps)], style)))
    draw(draw_timelines([a_timeline(*calls)], style))
    of_graph = without_blanks(draw(draw_graph(graph, style)))

    for text in SYNTAX:
        text_in_it = "".join(text.split()).replace("ﬂ°", "fl°").replace("¶ß", "¶ss")
        assert text_in_it in drawn
        assert text_in_it in of_graph


@pytest.mark.parametrize("style", STYLES)
def test_mermaid_draws_hostile_texts(draw, style):
    for text in HOSTILE.values():
        wait = Step(kind="wait", title=text, call=1, member=text)
        draw(draw_timelines([a_timeline(a_call(text), wait, arm=text, sample=text, variant=text)], style))


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_mermaid_draws_the_largest_diagrams(draw, style):
    waits = [Step(kind="wait", title=f"wait {k}", at=float(k)) for k in range(2_000)]

    assert "moresteps,notshownhere" in without_blanks(draw(draw_timelines([a_timeline(*waits)], style)))
    assert "1,999moreofitskind" in without_blanks(draw(draw_graph(a_graph(samples=2_000), style)))
    draw(draw_graph(a_graph(samples=240), style))


@pytest.mark.parametrize("style", STYLES)
def test_mermaid_draws_a_plain_story(draw, style):
    texts = draw(draw_timelines([a_long_story(), a_long_story()], style))

    assert "waited0.25sforitsturn" in without_blanks(texts)
