"""Values that stand in for a secret: masks, references to variables, and words such as `your-key-here`."""

from __future__ import annotations

import re

# Of these words a value is made that somebody is to replace, or that describes one.
_WORDS = (
    "your", "yours", "my", "our", "their", "the", "a", "an", "this", "that", "some", "any", "new", "old", "real", "actual",
    "own", "and", "or", "of", "for", "with", "in", "to", "from", "at", "on", "is", "be", "must", "not", "no", "as", "if",
    "by", "only", "here", "there", "goes", "example", "sample", "demo", "test", "tests", "testing", "dummy", "fake", "mock",
    "stub", "foo", "bar", "baz", "foobar", "todo", "fixme", "tbd", "placeholder", "place", "holder", "insert", "enter",
    "replace", "replaced", "change", "changed", "changeit", "changeme", "me", "it", "fill", "put", "paste", "add", "set",
    "unset", "provide", "provided", "generate", "generated", "redacted", "hidden", "masked", "removed", "omitted",
    "censored", "filtered", "sanitized", "obfuscated", "encrypted", "empty", "blank", "none", "null", "nil", "undefined",
    "missing", "unknown", "invalid", "valid", "true", "false", "yes", "required", "optional", "default", "string", "str",
    "text", "bytes", "int", "integer", "bool", "boolean", "number", "object", "type", "value", "values", "val", "var",
    "variable", "env", "environ", "config", "settings", "field", "name", "user", "username", "admin", "root", "client",
    "server", "service", "account", "app", "application", "project", "database", "db", "host", "url", "uri", "file", "path",
    "vault", "id", "code", "hash", "hashed", "salt", "public", "private", "access", "api", "apikey", "auth", "authorization",
    "bearer", "basic", "token", "tokens", "key", "keys", "secret", "secrets", "secretkey", "password", "passwords", "passwd",
    "passphrase", "pass", "pwd", "pw", "passwort", "kennwort", "credential", "credentials", "login", "signing", "encryption",
    "master", "session", "refresh", "webhook", "openai", "anthropic", "google", "aws", "azure", "github", "gitlab", "stripe",
    "slack", "groq", "hf", "huggingface", "wandb", "npm", "pypi", "sendgrid", "databricks", "super", "very", "long",
    "strong", "secure", "random", "confirm", "confirmation", "current", "repeat", "again", "reset", "forgot", "forgotten",
    "input", "output", "prod", "production", "dev", "development", "staging", "local", "localhost", "x", "xx", "xxx", "xxxx",
    "abc", "something", "anything", "whatever", "please", "dein", "deine", "ihr", "ihre", "mein", "hier", "eingeben",
    "eintragen", "beispiel", "geheim", "schluessel", "neues", "sk", "pk", "proj", "ant", "live", "ghp", "glpat", "xoxb",
)  # fmt: skip
# Possessive, with longer words first: each character is read once.
_MADE_OF_WORDS = re.compile(rf"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})++\d{{0,2}}")
_NO_LETTERS = re.compile(r"[\W_]+")
_MASK = re.compile(r"([*•●·…xX?#])\1{3,}|\*{3}|\.{3}|…|•{2}")
# `${NAME}`, `$NAME`, `{{ name }}`, `%(name)s`, `%NAME%`, `<name>`, `[name]`, `(name)`, `#{name}`, `@name@`, `__NAME__`, `:name`.
_REFERENCE = re.compile(
    r"\$[({].*|\$\$?[A-Z_][A-Z0-9_]*|\$[a-z_]+(?:(?:\.|->|:)[a-z_]+)*|\$env:.*|\{\{.*|#?\{.*\}|%\(.*|%[A-Za-z_]+%|%[sdrv]"
    r"|<[^>]*>?|\[.*\]|\(.*\)|@[A-Za-z_-]+@|__[A-Za-z_]+__|:[a-z_]+|![A-Za-z]+|ENC\[.*",
    re.DOTALL,
)
# `client_secret`, `clientSecret`, `API_KEY`
_NAME = "[A-Z]{0,3}[a-z_]{2,}(?:[A-Z]{1,3}[a-z]{2,})*|[A-Z_]{3,}"
_ARGUMENTS = r"[(\[{][\w.,()\[\]{}=: -]*"
# A call, an index, a dotted name, a list, a constant, or where a secret is kept.
_CODE = re.compile(
    rf"[A-Za-z_]?[a-z]{{2,}}+(?:(?:(?:->|::|[._])[A-Z]?|[A-Z])[a-z]++)*+(?:_[A-Z]++)*+{_ARGUMENTS}|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+{_ARGUMENTS}"
    rf"|(?:{_NAME})(?:(?:\.|->|::?)(?:{_NAME})\d{{0,2}}){{1,6}}|[\[({{](?:{_NAME})(?:\.(?:{_NAME}))*|(?:[Tt]rue|[Ff]alse|None|null|nil)\b.*"
    r"|(?:file|vault|op|https?|arn|ref|env|ssm|secretsmanager|keyring|sops)(?:://|:|\+).*"
    r"|(?:\.{0,2}|~|[A-Za-z]:)[/\\](?:[A-Za-z_. -]+[/\\])+[\w.-]+",
    re.DOTALL,
)
_FEWEST_CHARACTERS, _SEPARATORS = 3, frozenset("-_. ")


def is_placeholder(value: str) -> bool:
    """Return whether a value only stands in for a secret.

    >>> [is_placeholder(value) for value in ("${DB_PASSWORD}", "your-key-here", "********", "Tr0ub4dor")]
    [True, True, True, False]
    """
    letters = _NO_LETTERS.sub("", value).lower()
    return (
        len(set(value) - _SEPARATORS) < _FEWEST_CHARACTERS
        or "example" in letters
        or _MASK.search(value) is not None
        or _REFERENCE.fullmatch(value) is not None
        or _CODE.fullmatch(value) is not None
        or _MADE_OF_WORDS.fullmatch(letters) is not None
    )
