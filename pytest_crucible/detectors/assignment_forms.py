"""The forms in which texts assign a secret to a name, and the words that names are made of."""

from __future__ import annotations

import re

FOREIGN = (
    "contraseña",
    "mot de passe",
    "senha",
    "wachtwoord",
    "hasło",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
)
STEMS = (
    "pass",
    "pwd",
    "psk",
    "kennwort",
    "key",
    "token",
    "secret",
    "auth",
    "cred",
    "sig",
    "sess",
    "securestring",
    *FOREIGN,
)
"""Of which every text with such a name has one."""
# A name ends with one of these words, or with one of them and what tells one such value from another.
_NAME = (
    r"(?P<stem>passwords?|passwd|passphrase|passcode|passwort|kennwort|pwd|psk|pass|secret|token|keys?|credentials?|auth|sig"
    rf"|session[_-]?id|sessid|securestring|{'|'.join(FOREIGN)})"
    r"(?:[_.-]?(?:\d{1,3}|base|prod|dev|live|staging|value|primary|secondary|main|old|new|raw|text|private))?"
)
_BETWEEN = "|".join(
    (
        # `"name": value`, `name := value`, `name: str = value`, `| name | value`
        r"\\?[\"'`*)\]]{0,3}\s{0,3}(?::\s{0,2}(?:str|string|String)\s{0,2}=|:=|=>|->|={1,3}|:|\||\t)",
        # `'name', 'value'`, `name" value="value"`, `name: x\nvalue: value`, `"name" { default = value`, `<name>value</name>`
        r"[\"']\s{0,3},\s{0,3}(?=[\"'])",
        r"[\"']?\s{0,20},?\s{0,20}[\"']?value[\"']?\s{0,2}[:=]",
        r"[\"']?\s{0,3}\{\s{0,20}default\s{0,3}=",
        r">(?=[^<\s]{6,200}</)",
        # `name("value")`, `name("user", "value")`, `name 'value'`
        r"=?\((?:[\"'][^\"'\n]{1,60}[\"'],\s{0,3})?(?=[\"'])",
        r"\s{1,2}(?=[\"'`])",
        # `name for x is now value`, in English, German, Spanish, French, Italian and Portuguese
        r"(?:\s(?:for|of|to|on|from|für|von|zum?)(?:\s[\w.@'-]{1,30}){1,4}?)?"
        r"\s(?:(?:is|was|ist|war|lautet|heißt|es|est|è|é)(?:\s(?:now|still|jetzt|set\sto))?|to|set\sto|auf):?",
    )
)
# The value is looked ahead for: `<add key="password" value="...">` has two names.
ASSIGNMENT = re.compile(
    rf"{_NAME}(?:(?P<between>{_BETWEEN})|[ \t]{{1,3}})(?=\s{{0,3}}(?:\\?(?P<quote>[\"'`]))?(?P<value>[^\s\"'`<>]{{6,200}}))",
    re.IGNORECASE,
)
AUTHORIZATION = re.compile(
    r"(?:(?P<header>authorization[\"']?\s{0,3}[:=,]\s{0,3}f?[\"']?)[\w-]{2,20}|\bbearer)\s{1,3}(?:(?:token|key)=)?[\"']?"
    r"(?P<value>[\w.~+/:-]{8,2000}={0,2})",
    re.IGNORECASE,
)
# A line of .pgpass: host, port, database, user and password.
PGPASS = re.compile(r"^[\w.*-]{1,99}:(?:\d{2,5}|\*):[\w.*-]{1,60}:[\w.*-]{1,60}:(?P<value>\S{6,200})$", re.MULTILINE)
LOGIN = re.compile(
    r" (?:(?:-u|--user|--userpwd)[ =][\"']?[\w.@-]{1,60}:|(?<=sshpass )-p ?[\"']?|(?<=mysql )(?:-u ?\w+ )?-p[\"']?)"
    r"(?P<value>[^\s\"'`<>]{6,200})"
)
NEXT = re.compile(r"\\[nrt\"']|[;&,](?=\s?[\w. -]{1,40}=)|[,;](?=[\"'{}\]]|$)|[}\])](?=[,;}\]]|$)")
"""What follows an unquoted value in a connection string, a query, or a text in JSON."""
PASSWORDS = frozenset(
    (
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "passcode",
        "passwort",
        "kennwort",
        "pwd",
        "psk",
        "pass",
        *FOREIGN,
    )
)
QUALIFIERS = frozenset(
    (
        "access", "account", "admin", "aes", "api", "app", "application", "auth", "authentication", "aws", "azure", "bearer",
        "bot", "client", "consumer", "deploy", "encryption", "github", "gitlab", "hmac", "id", "jwt", "license", "master",
        "npm", "oauth", "openai", "personal", "private", "refresh", "registration", "root", "secret", "security", "server",
        "service", "session", "shared", "signing", "storage", "subscription", "user", "vault", "webhook",
    )
)  # fmt: skip
"""Before "key", "token" or "secret" these make the name of a secret."""
OTHERS = frozenset(
    (
        "bos", "cache", "cls", "continuation", "csrf", "dedup", "end", "eos", "foreign", "group", "host", "idempotency",
        "index", "known", "mask", "max", "min", "next", "num", "object", "pad", "page", "partition", "prev", "primary",
        "public", "publishable", "row", "s3", "sep", "shard", "sort", "special", "start", "stop", "sync", "unk", "unique",
    )
)  # fmt: skip
"""Before "key" or "token" these make the name of something else."""
WORD = re.compile(
    r"[^\W\d_a-z]*|[^\W\d_]?[^\W\d_A-Z]*|[a-z]{2,}(?:[A-Z][a-z]{2,})+|[A-Z]{1,3}[a-z]{2,}(?:[A-Z]{1,3}[a-z]{2,})*"
)
# A name in code: `secret_key = s3_connection`.
VARIABLE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z][a-z0-9]*)+")
# In a sentence: `the password is base64-encoded`.
WORDS = re.compile(r"[^\W\d_]+\d{0,3}(?:[-/][^\W\d_]+\d{0,3})+")
