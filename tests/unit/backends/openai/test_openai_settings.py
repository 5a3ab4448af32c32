"""Settings of an adapter: its server, its key, and its identity without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.backends.openai.settings import Settings, read_settings
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

URL = "https://model.example/v1"
KEY = "sk-hidden-1234567890"


def settings(environment: dict[str, str] | None = None, **options) -> Settings:
    return read_settings(adapter(**options), Path("/project"), environment or {})


def adapter(**options) -> Adapter:
    values = {"base_url": URL, "model": "m", **options}
    return Adapter(
        name="v2", backend="openai", options={name: value for name, value in values.items() if value is not None}
    )


def test_default_key_is_read_from_the_environment():
    result = settings({"OPENAI_API_KEY": KEY})

    assert result.headers["authorization"] == f"Bearer {KEY}"
    assert result.key_from == "the key is that of OPENAI_API_KEY"


def test_no_key_is_sent_when_none_is_set():
    assert "authorization" not in settings().headers
    assert settings().server == URL


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://model.example/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.2:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://model.example/v1", False),
        ("http://10.0.0.3:8000/v1", False),
    ],
)
def test_default_key_is_not_sent_over_plain_http(url, is_sent):
    usual = settings({"OPENAI_API_KEY": KEY}, base_url=url)
    named = settings({"OPENAI_API_KEY": KEY}, base_url=url, api_key_env="OPENAI_API_KEY")

    assert ("authorization" in usual.headers) == is_sent
    assert "authorization" in named.headers


def test_named_key_overrides_the_default():
    result = settings({"OPENAI_API_KEY": "other", "MY_KEY": f"{KEY}\n"}, api_key_env="MY_KEY")

    assert result.headers["authorization"] == f"Bearer {KEY}"


def test_headers_can_use_environment_variables():
    headers = {"Authorization": "Token $MY_KEY", "X-Price": "$$5", "x-team": "${TEAM}s"}
    result = settings({"MY_KEY": KEY, "TEAM": "red", "OPENAI_API_KEY": "other"}, headers=headers)

    assert result.headers["authorization"] == f"Token {KEY}"
    assert (result.headers["x-price"], result.headers["x-team"]) == ("$5", "reds")


def test_url_can_use_environment_variables():
    assert settings({"HOST": "model.example"}, base_url="https://$HOST/v1").identity == settings().identity


def test_keys_are_not_shown():
    result = settings({"OPENAI_API_KEY": KEY}, headers={"x-other": KEY}, system="Be short.")

    assert KEY not in repr(result) + result.server + result.identity + result.key_from


def test_same_url_and_key_share_a_server():
    first, other = {"OPENAI_API_KEY": KEY}, {"OPENAI_API_KEY": f"{KEY}0"}

    assert settings(first).server == settings(first, model="n", system="s").server
    assert len({settings().server, settings(first).server, settings(other).server}) == 3
    assert settings(first).server != settings(first, base_url="https://other.example/v1").server


def test_key_in_the_url_is_not_part_of_the_identity():
    old, new = ({"GATEWAY_TOKEN": token, "TEAM": "red"} for token in (KEY, f"{KEY}0"))
    url = "https://model.example/$GATEWAY_TOKEN/$TEAM/v1"

    assert settings(old, base_url=url).address.path == f"/{KEY}/red/v1"
    assert settings(old, base_url=url).identity == "https://model.example/$GATEWAY_TOKEN/red/v1#m"
    assert settings(old, base_url=url).identity == settings(new, base_url=url).identity
    assert settings({"URL_TOKEN": URL}, base_url="$URL_TOKEN").identity == settings().identity


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "n"},
        {"base_url": "https://other.example/v1"},
        {"system": "Be short."},
        {"mode": "completions"},
        {"extra_body": {"top_a": 1}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_identity_covers_settings_that_change_replies(changed):
    assert settings(**changed).identity != settings().identity


@pytest.mark.parametrize(
    "changed",
    [{"stream": True}, {"verify": False}, {"headers": {"x-one": "1"}}, {"base_url": "HTTPS://Model.example:443/v1/"}],
    ids=lambda changed: next(iter(changed)),
)
def test_identity_ignores_other_settings(changed):
    assert settings(**changed).identity == settings().identity == f"{URL}#m"


def test_ca_file_is_relative_to_the_configuration():
    assert settings(ca_file="ca.pem").ca_file == Path("/project/ca.pem")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"base_url": None}, "has backend 'openai' but no 'base_url': add base_url = \"...\""),
        ({"model": None}, "has backend 'openai' but no 'model'"),
        ({"base_url": "localhost:8000"}, "has an invalid base_url: 'localhost:8000' is not a URL of a server"),
        ({"base_url": "$NO_URL/v1"}, "has an invalid base_url: environment variable 'NO_URL' is not set"),
        ({"base_url": f"{URL}/chat/completions"}, "remove what follows /v1"),
        ({"base_url": f"{URL}/chat/completions?v=1"}, "remove what follows /v1"),
        (
            {"base_url": f"{URL}?v=1&api_key=abc"},
            "it contains a key: write api_key=$NAME, with the name of an environment variable",
        ),
        ({"modell": "m"}, "has 'modell', which is not a setting of backend 'openai': did you mean 'model'?"),
        ({"zzz": 1}, "which is not a setting of backend 'openai': expected base_url, model, api_key_env"),
        ({"model": ""}, "has model = ''; expected a text that is not empty"),
        ({"stream": "yes"}, "has stream = 'yes'; expected true or false"),
        ({"verify": 0}, "has verify = 0; expected true or false"),
        ({"extra_body": []}, "has extra_body = []; expected a table"),
        (
            {"extra_body": {"stream": True}},
            "has 'stream' in extra_body, which is for settings of this server alone: write",
        ),
        ({"extra_body": {"messages": []}}, "has 'messages' in extra_body"),
        ({"mode": "Chat"}, "has mode = 'Chat'; expected 'chat' or 'completions'"),
        ({"transport": "carrier pigeon"}, "expected 'default' or 'httpx'"),
        ({"transport": "default", "client": "a:b"}, "has a client, which is for transport"),
        (
            {"mode": "completions", "system": "s"},
            "has a system prompt and mode = 'completions', which sends a single text: remove one of them",
        ),
        (
            {"api_key_env": "NO_KEY"},
            "has api_key_env = 'NO_KEY', but that environment variable is not set: set it before the run",
        ),
        ({"api_key_env": "ODD_KEY"}, "environment variable ODD_KEY is not a key"),
        ({"headers": {"x-one": "$NO_KEY"}}, "with an invalid value: environment variable 'NO_KEY' is not set"),
        ({"headers": {"x-one": "5 $ each"}}, "with an invalid value: write $$ for a $"),
        ({"headers": {"x-one": 1}}, "has a header 'x-one' that is not a text"),
        ({"headers": {"x one": "1"}}, "has a header 'x one', which cannot be set"),
        ({"headers": {"Host": "a"}}, "has a header 'Host', which cannot be set"),
        ({"headers": {"x-one": "a\r\nb: c"}}, "has a header 'x-one' with characters that a header cannot contain"),
    ],
)
def test_invalid_settings_are_refused(options, sentence):
    with pytest.raises(SpecError) as caught:
        settings({"ODD_KEY": f"{KEY}\nb"}, **options)

    assert sentence in str(caught.value)
    assert KEY not in str(caught.value)


def test_parameters_are_checked_when_opening():
    wrong = Adapter(name="v2", backend="openai", options=adapter().options, parameters={"max_token": 5})
    with pytest.raises(SpecError, match=r"adapter 'v2' has invalid parameters: .* did you mean 'max_tokens'"):
        open_openai(wrong, Path("."))


@pytest.mark.parametrize(
    ("base_url", "public_url"),
    [
        (f"{URL}?user=$TEAM", f"{URL}?user=$TEAM"),
        ("$GATEWAY", f"{URL}?$GATEWAY"),
        ("https://$PLACE/v1", "https://model.example/v1"),
    ],
)
def test_query_variables_are_shown_by_name(base_url, public_url):
    environment = {"TEAM": "planted-1", "GATEWAY": f"{URL}?user=planted-2", "PLACE": "model.example"}

    read = settings(environment, base_url=base_url)

    assert read.public_url == public_url
    assert "planted" not in read.server + read.identity
    assert ("planted" in read.address.url) == ("planted" in str(read.secrets)) == ("PLACE" not in base_url)


def test_invalid_url_is_shown_without_variables():
    with pytest.raises(SpecError, match="invalid base_url") as raised:
        settings({"TEAM": "planted-in-a-query"}, base_url=f"{URL}?user=$TEAM#m")

    assert "planted" not in str(raised.value)
