"""Names a value's type in plain words, for error messages."""

from __future__ import annotations

_PYTHON = {
    "NoneType": "None",
    "bool": "a boolean",
    "builtin_function_or_method": "a function",
    "bytes": "bytes",
    "complex": "a complex number",
    "float": "a number",
    "int": "a number",
    "str": "a string",
    "type": "a class",
}
_JSON = {"NoneType": "null", "dict": "an object", "list": "an array"}
_COLLECTIONS = (str, list, tuple, dict, set)


def describe_type(value: object) -> str:
    """Return a value's type in words, with its article.

    >>> [describe_type(value) for value in (7, "text", [], {"a": 1}, None)]
    ['a number', 'a string', 'an empty list', 'a dict', 'None']
    """
    name = type(value).__name__
    if isinstance(value, _COLLECTIONS) and not value:
        return f"an empty {_word(name)}"
    return _PYTHON.get(name, _with_article(name))


def describe_json_type(value: object) -> str:
    """Return the type of a value that was read from JSON, in the words of JSON.

    >>> [describe_json_type(value) for value in (7, "text", [], {"a": 1}, None)]
    ['a number', 'a string', 'an array', 'an object', 'null']
    """
    name = type(value).__name__
    return _JSON.get(name) or _PYTHON.get(name, _with_article(name))


def _word(name: str) -> str:
    return _PYTHON.get(name, name).removeprefix("a ")


def _with_article(name: str) -> str:
    # "ndarray" is spoken with its first letter's name; names that begin with a "u", such as Unit, mostly sound like "you".
    return f"{'an' if name[:1].lower() in 'aeio' or name.startswith('nd') else 'a'} {name}"
