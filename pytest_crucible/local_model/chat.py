r"""Chat messages as a prompt, for a model that learned questions and answers but no role markers.

One message is the unchanged prompt, so that clients that can only send messages send the same prompt as clients that
send a text. Several messages are a conversation, in the form that the base model was trained on:

    Document 12: ...                    system, or any other role
                                        (a blank line)
    Question: what is Document 12 called?       user
    Answer: ...                                 assistant
                                        (a blank line)
    Question: who was studied?          user
    Answer:                             here the reply begins, mostly with a blank

`TEMPLATE` is the same form as a template for transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

QUESTION, ANSWER, SEPARATOR = "Question: ", "\nAnswer:", "\n\n"
EXPECTED = "write {'role': ..., 'content': ...}"

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['content'] is string -%}{%- set content = message['content'] -%}"
    "{%- else -%}{%- set content = message['content'] | map(attribute='text') | join -%}{%- endif -%}"
    "{%- if messages | length == 1 -%}{{- content -}}"
    "{%- elif message['role'] == 'assistant' -%}{{- '\\nAnswer: ' + content -}}"
    "{%- else -%}"
    "{%- if not loop.first -%}{{- '\\n\\n' -}}{%- endif -%}"
    "{%- if message['role'] == 'user' -%}{{- 'Question: ' -}}{%- endif -%}{{- content -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt and messages | length > 1 -%}{{- '\\nAnswer:' -}}{%- endif -%}"
)


def render_prompt(messages: Any) -> str:
    r"""Return a list of messages as the prompt after which the reply begins; TypeError for anything else.

    >>> render_prompt([{"role": "user", "content": "Extract the claims.\n"}])
    'Extract the claims.\n'
    >>> render_prompt([{"role": "system", "content": "Water is wet."}, {"role": "user", "content": "what is wet?"}])
    'Water is wet.\n\nQuestion: what is wet?\nAnswer:'
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        given = "an empty one" if messages == [] else type(messages).__name__
        raise TypeError(f"expected a list of messages, not {given}: {EXPECTED}")
    if len(messages) == 1:
        return message_text(messages[0])
    return "".join(_turn(message, index) for index, message in enumerate(messages)) + ANSWER


def split_conversation(messages: Any) -> tuple[str, str]:
    r"""Return the prompt of a conversation that ends with an answer, and the reply to learn.

    >>> split_conversation([{"role": "user", "content": "2 + 2 ="}, {"role": "assistant", "content": " 4"}])
    ('2 + 2 =', ' 4')
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or len(messages) < 2:
        raise TypeError("a conversation to learn from needs at least two messages, the last of them the answer")
    answer = message_text(messages[-1])
    return render_prompt(messages[:-1]), answer if len(messages) == 2 else f" {answer}"


def message_text(message: Any) -> str:
    """Return the text of a message, which may come in parts; TypeError without text."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not content:
        raise TypeError(f"a message has no text: {EXPECTED}")
    return "".join(map(_text_of, content))


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise TypeError("the content of a message must be text: this model reads only text")
    return text


def _turn(message: Any, index: int) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str):
        raise TypeError(f"a message has no role: {EXPECTED}")
    content = message_text(message)
    if role == "assistant":
        return f"{ANSWER} {content}"
    return f"{SEPARATOR if index else ''}{QUESTION if role == 'user' else ''}{content}"
