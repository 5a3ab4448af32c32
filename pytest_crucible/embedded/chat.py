r"""Messages as the prompt of a model that has read questions and answers, but no marks for roles.

One message is a prompt, and is read as it stands: whoever can only send messages asks a checkpoint what others ask it with
a text. Several are a conversation, in the form in which the base model has read them:

    Document 12: ...                    system, or any other role
                                        (a blank line)
    Question: what is Document 12 called?       user
    Answer: ...                                 assistant
                                        (a blank line)
    Question: who was studied?          user
    Answer:                             here the reply begins, mostly with a blank

The same as a template for transformers is `TEMPLATE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ASKED, ANSWERED, PARTED = "Question: ", "\nAnswer:", "\n\n"
WANTED = "write {'role': ..., 'content': ...}"

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


def rendered(messages: Any) -> str:
    r"""A list of messages as the prompt after which the reply begins. Raises TypeError for anything else.

    >>> rendered([{"role": "user", "content": "Extract the claims.\n"}])
    'Extract the claims.\n'
    >>> rendered([{"role": "system", "content": "Water is wet."}, {"role": "user", "content": "what is wet?"}])
    'Water is wet.\n\nQuestion: what is wet?\nAnswer:'
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        raise TypeError(f"a {type(messages).__name__} is no list of messages: {WANTED}")
    if len(messages) == 1:
        return content_of(messages[0])
    return "".join(_turn(message, place) for place, message in enumerate(messages)) + ANSWERED


def finished(messages: Any) -> tuple[str, str]:
    r"""A conversation that ends with an answer: the prompt, and what a model that learns from it should reply.

    >>> finished([{"role": "user", "content": "2 + 2 ="}, {"role": "assistant", "content": " 4"}])
    ('2 + 2 =', ' 4')
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or len(messages) < 2:
        raise TypeError("a conversation to learn from has at least two messages, the last of which is the answer")
    answer = content_of(messages[-1])
    return rendered(messages[:-1]), answer if len(messages) == 2 else f" {answer}"


def content_of(message: Any) -> str:
    """The text of a message, which may come in parts. Raises TypeError where there is none."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not content:
        raise TypeError(f"a message has no text: {WANTED}")
    return "".join(map(_text_of, content))


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise TypeError("the content of a message must be text: this model reads nothing else")
    return text


def _turn(message: Any, place: int) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str):
        raise TypeError(f"a message has no role: {WANTED}")
    content = content_of(message)
    if role == "assistant":
        return f"{ANSWERED} {content}"
    return f"{PARTED if place else ''}{ASKED if role == 'user' else ''}{content}"
