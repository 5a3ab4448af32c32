"""Segments: what they cover, how they are named, and which functions of a suite are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.explanation.segments import find_finder, split_prompt
from pytest_crucible.records.errors import SpecError

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One. Two?\n\nThree"},
    {"role": "assistant", "content": "An example."},
    {"role": "user", "content": [{"type": "image"}]},
]


def labels(kind, input=MESSAGES):
    return [segment.label for segment in split_prompt(input, *find_finder(kind, ())).segments]


def test_each_kind_names_its_segments():
    assert labels("message") == ["system", "user 1", "assistant"]
    assert labels("paragraph") == ["system", "user 1, paragraph 1", "user 1, paragraph 2", "assistant"]
    assert labels("sentence")[1:4] == ["user 1, sentence 1", "user 1, sentence 2", "user 1, sentence 3"]
    assert labels("paragraph", "a\n\nb") == ["user, paragraph 1", "user, paragraph 2"]


def test_blanks_alone_are_no_segment():
    assert labels("paragraph", " \n\n ") == []
    assert labels("paragraph", "\n\na\n\n\n") == ["user"]


@given(st.text(alphabet="ab. \n?A", max_size=60), st.sampled_from(["message", "paragraph", "sentence"]))
def test_the_segments_of_a_text_are_all_of_it(text, kind):
    prompt = split_prompt(text, *find_finder(kind, ()))

    assert "".join(map(prompt.text, prompt.segments)) == (text if text.strip() else "")
    assert all(prompt.text(segment).strip() for segment in prompt.segments)


def test_a_function_of_the_suite_names_the_parts(tmp_path):
    (tmp_path / "parts.py").write_text("def two(messages):\n    return [(0, 3, 8), (1, 0, 4)]\n")
    prompt = split_prompt(MESSAGES, *find_finder("parts.py:two", [tmp_path]))

    assert [(segment.label, prompt.text(segment)) for segment in prompt.segments] == [
        ("system", "brief"),
        ("user 1", "One."),
    ]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "return [(0, 0, 4), (0, 3, 6)]",
            "returned overlapping segments (0, 0, 4) and (0, 3, 6); return separate ones",
        ),
        ("return [(9, 0, 4)]", "returned (9, 0, 4); return (message number, start, end)"),
        ("return [(0, 4, 4)]", "returned (0, 4, 4); return (message number, start, end)"),
        ("return ['x']", "returned 'x'; return (message number, start, end)"),
        ("return 1 / 0", "raised ZeroDivisionError: division by zero; repair it"),
    ],
)
def test_invalid_segments_are_refused(tmp_path, source, sentence):
    (tmp_path / "parts.py").write_text(f"def some(messages):\n    {source}\n")

    with pytest.raises(SpecError) as refused:
        split_prompt(MESSAGES, *find_finder("parts.py:some", [tmp_path]))
    assert str(refused.value).startswith(f"parts.py:some {sentence}")


@pytest.mark.parametrize("kind", ["parts.py:some", "broken.py:some", "parts.py:"])
def test_a_file_or_function_that_is_not_there_is_refused(tmp_path, kind):
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")

    with pytest.raises(SpecError):
        find_finder(kind, [tmp_path])
