"""Tokens of texts, and prompts of messages."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base_model.tokenizer import train_tokenizer
from pytest_crucible.local_model.engine import PACKAGED
from pytest_crucible.local_model.tokens import Tokenizer, configurations, render_prompt, split_conversation

TEXTS = [
    "In trial 4821 the drug lowered fasting glucose. The drug did not lower weight.\n\nCLAIM[c1]: it's so (p < 0.05)!",
    "Fasting glucose was lowered in 17 of 20 people; 3 were not. Die Größe: naïve café, 数据, 🙂🙂.",
]
ANY_TEXT = st.text() | st.text(st.sampled_from(string.printable + "é日🙂\x00\x1c\u2028"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, vocabulary=330)


@given(ANY_TEXT)
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)

    assert tokenizer.decode(ids) == text
    assert all(0 <= item < tokenizer.vocabulary - 2 for item in ids)


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "  \n\t ", "\x00\x7f\x80", "👩‍👩‍👧", "a" * 5000, "<|endoftext|><|pad|>", "\r\n"]
)
def test_odd_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_digits_stay_alone(tokenizer):
    ids = tokenizer.encode("4821")

    assert ids == [ord(digit) for digit in "4821"]
    assert not any(char in item for item in tokenizer._bytes[256:] for char in b"0123456789")


def test_training_merges_what_is_common_first():
    tokenizer = train_tokenizer(["ab ab ab ac"], vocabulary=260)

    # " a" occurs three times, "ab" three times: the pair that is first in the order of bytes wins; then " ab".
    assert [tokenizer.decode([item]) for item in (256, 257)] == [" a", " ab"]
    assert tokenizer.encode("ab ab") == [97, 98, 257]


def test_training_does_not_depend_on_the_order_of_texts():
    assert train_tokenizer(TEXTS, 330) == train_tokenizer(TEXTS[::-1], 330)


def test_training_refuses_a_vocabulary_that_the_texts_cannot_fill():
    with pytest.raises(ValueError, match="too few pairs"):
        train_tokenizer(["ab"], vocabulary=400)


def test_two_ways_to_the_same_bytes_give_one_id():
    tokenizer = Tokenizer(((97, 98), (98, 99), (256, 99), (97, 257)))

    assert tokenizer.vocabulary == 256 + 3 + 2
    assert tokenizer.encode("abc") == [258]


def test_pairs_are_merged_in_the_order_of_training():
    assert Tokenizer(((97, 98), (98, 99))).encode("abc bcab") == [256, 99, 32, 257, 256]
    assert Tokenizer(((98, 99), (97, 98))).encode("abc bcab") == [97, 256, 32, 256, 257]


def test_a_merge_of_tokens_that_do_not_exist_is_refused():
    with pytest.raises(ValueError, match="no earlier merge"):
        Tokenizer(((97, 300),))


def test_special_tokens_are_last_and_never_shown(tokenizer):
    assert (tokenizer.pad, tokenizer.eos) == (tokenizer.vocabulary - 2, tokenizer.vocabulary - 1)
    assert tokenizer.decode([*tokenizer.encode("so"), tokenizer.eos, tokenizer.pad]) == "so"


def test_half_a_character_is_shown_as_a_replacement(tokenizer):
    assert tokenizer.decode(list("🙂".encode())) == "🙂"
    assert tokenizer.decode(list("🙂".encode())[:2]) == "\ufffd"


@pytest.mark.parametrize("token", [-1, 330, 10**9])
def test_an_id_that_does_not_exist_is_refused(tokenizer, token):
    with pytest.raises(ValueError, match=rf"token {token} does not exist, ids are 0 to 329"):
        tokenizer.decode([5, token])


def test_a_lone_surrogate_is_no_text(tokenizer):
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer.encode("a\ud800")


def test_a_saved_tokenizer_is_loaded(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")

    loaded = Tokenizer.load(tmp_path / "tokenizer.json")

    assert loaded == tokenizer
    assert loaded.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])


@pytest.mark.parametrize("content", ["", "{}", "[1]", "nonsense"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(ValueError, match="was not written by this tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_file_that_cuts_text_otherwise_is_refused(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\s+"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    with pytest.raises(ValueError, match="it splits text by another pattern"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.fixture(scope="module")
def elsewhere(tokenizer, tmp_path_factory):
    """The same tokenizer in Hugging Face's library."""
    tokenizers = pytest.importorskip("tokenizers")
    directory = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_for_transformers(directory)
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


@given(ANY_TEXT)
def test_the_tokenizers_library_gives_the_same_ids(tokenizer, elsewhere, text):
    elsewhere.encode_special_tokens = True

    assert elsewhere.encode(text).ids == tokenizer.encode(text)
    assert elsewhere.decode(tokenizer.encode(text)) == text


def test_transformers_gives_the_same_ids(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.save_for_transformers(tmp_path)

    other = transformers.AutoTokenizer.from_pretrained(str(tmp_path))

    for text in (*TEXTS, "a <|endoftext|> b", "  two  blanks\n\n\n", "4821 a1b2"):
        assert other.encode(text) == tokenizer.encode(text)
    assert (other.eos_token_id, other.pad_token_id) == (tokenizer.eos, tokenizer.pad)


texts = st.text(max_size=20)
contents = texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), min_size=1, max_size=3)
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": contents}),
    min_size=1,
    max_size=5,
)


def by_template(messages: list[dict[str, object]]) -> str:
    """Render a conversation as transformers does."""
    pytest.importorskip("jinja2")
    import jinja2.sandbox

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(json.loads(configurations()["tokenizer_config.json"])["chat_template"])
    return template.render(messages=messages, add_generation_prompt=True)


@given(conversations)
def test_the_template_says_the_same(messages):
    assert by_template(messages) == render_prompt(messages)


def test_a_conversation_is_what_the_base_has_read():
    text = render_prompt(
        [
            {"role": "system", "content": "Document 12: Bees"},
            {"role": "user", "content": "what is Document 12 called?"},
            {"role": "assistant", "content": "Bees"},
            {"role": "user", "content": "who was studied?"},
        ]
    )

    assert text == (
        "Document 12: Bees\n\nQuestion: what is Document 12 called?\nAnswer: Bees\n\nQuestion: who was studied?\nAnswer:"
    )


def test_the_marks_are_whole_tokens_of_the_packaged_base():
    tokenizer = Tokenizer.load(PACKAGED / "tokenizer.json")

    assert len(tokenizer.encode("\nAnswer:")) <= 3
    assert len(tokenizer.encode("Question:")) <= 2


@given(conversations.filter(lambda messages: len(messages) > 1))
def test_a_conversation_to_learn_from_continues_its_own_prompt(messages):
    prompt, completion = split_conversation(messages)
    answer = {"role": "assistant", "content": messages[-1]["content"]}

    assert prompt == render_prompt(messages[:-1])
    if len(messages) > 2:
        assert render_prompt([*messages[:-1], answer]) == f"{prompt}{completion}\nAnswer:"


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ("hi", "expected a list of messages, not a string"),
        ([], "expected a list of messages, not an empty list"),
        (3, "expected a list of messages, not a number"),
        ([3], "a message has no text"),
        ([{"role": "user"}], "a message has no text"),
        ([{"role": "user", "content": []}], "a message has no text"),
        ([{"content": "a"}, {"content": "b"}], "a message has no role"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "must be text"),
    ],
)
def test_invalid_conversations_are_refused(messages, sentence):
    with pytest.raises(TypeError, match=sentence):
        render_prompt(messages)


def test_a_lesson_has_a_question_and_an_answer():
    with pytest.raises(TypeError, match="at least two messages"):
        split_conversation([{"role": "user", "content": "a"}])
