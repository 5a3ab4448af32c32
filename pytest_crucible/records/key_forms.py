"""The forms of services' keys: what each begins with, and what follows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_HEX, _ALNUM, _SAFE = "[0-9a-f]", "[A-Za-z0-9]", r"[\w-]"
_UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
# What follows -> the beginnings of keys, as services document them, and as gitleaks and detect-secrets look for them. Where a
# service says that its lengths may change, a shorter one is enough.
_BEGINNINGS = {
    rf"{_ALNUM}{{28,}}": "npm_ nfp_ ntn_ r8_ gsk_ xai- pplx- csk- pcsk_ secret_",
    rf"{_SAFE}{{28,}}": "github_pat_ pypi- nvapi- tgp_v1_ fo1_ HRKU- wandb_v1_ ddpat_ figd_ KGAT_",
    rf"{_SAFE}{{20,}}": "gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- hvs. hvb. hvr. lin_api_ lin_oauth_ jina_ "
    "sq0atp- sq0csp- dckr_pat_ dckr_oat_ GOCSPX- tskey-auth- tskey-api- tskey-client- whsec_ CFPAT- phx_",
    rf"{_ALNUM}{{20,}}": "fw_ tfp_ pnu_ rdme_ tk-us-",
    r"[\w.=+/-]{14,}": "pscale_tkn_ pscale_pw_ pscale_oauth_ rzp_live_ FLWSECK-",
    r"[A-Za-z0-9+/=_]{32,}": "glc_ sntrys_",
    r"[\w.-]{24,}": "ya29. dp.pt. dp.st. dp.ct. dp.sa.",
    rf"{_SAFE}{{100,}}": "sl.",
    rf"{_HEX}{{60,}}": "dop_v1_ doo_v1_ dor_v1_ sntryu_",
    rf"{_HEX}{{32}}\b": "key- dapi",
    rf"{_HEX}{{40}}\b": "sqp_ squ_ sqa_ sbp_ pul- bkua_",
    rf"{_HEX}{{48}}\b": "rubygems_",
    r"[0-9a-fA-F]{32}\b": "shpat_ shpss_ shpca_ shppa_",
    rf"{_SAFE}{{16,}}\.{_SAFE}{{16,}}": "SG.",
    rf"{_ALNUM}{{24}}\b(?!\()": "s.",
    r"eyJ[\w-]{20,}\.[\w-]{16,}": "sk.",
    r"[A-Z2-7]{24}\.[A-Z2-7]{60,}": "dt0c01.",
    rf"{_ALNUM}{{32}}_{_HEX}{{8}}": "glsa_",
    rf"{_HEX}{{32}}_{_HEX}{{10}}": "lsv2_pt_ lsv2_sk_",
    r"[A-Z0-9]{27}\b": "NRAK-",
    rf"{_HEX}{{24}}-{_HEX}{{34}}": "PMAK-",
    rf"{_HEX}{{64}}-{_ALNUM}{{16}}": "xkeysib-",
    _UUID: "pat-na1- pat-eu1- sdk- api-",
    rf"{_ALNUM}{{20,}}_{_HEX}{{40}}": "CCIPAT_",
    r"1[0-9A-Z]{58}": "AGE-SECRET-KEY-",
    r"\d-[A-Z0-9]+-\d+-[a-z0-9]{16,}": "xapp-",
    r"xox[bp]-[\w-]{16,}": "xoxe.",
    r"T\w{6,}/B\w{6,}/\w{16,}": "hooks.slack.com/services/",
    r"\d{15,20}/[\w-]{60,}": "discord.com/api/webhooks/",
    r"[A-Z0-9]{16}\b": "ASIA",
    rf"{_ALNUM}{{20}}\b": "LTAI",
    r"[\w=-]{100,}": "ATATT3",
}
# A sign inside a key, what is before it, by length, and what is behind: Microsoft Entra, Telegram, Mailchimp, Terraform, Airtable.
_INSIDE = (
    ("Q~", {4: r"[\w~.-]{3}\d"}, r"[\w~.-]{31,34}"),
    (":AA", {length: rf"\d{{{length}}}" for length in (8, 9, 10)}, r"[\w-]{33}"),
    ("-us", {32: rf"{_HEX}{{32}}"}, r"\d{1,2}\b"),
    (".atlasv1.", {14: rf"{_ALNUM}{{14}}"}, rf"{_SAFE}{{60,}}"),
    (".", {17: rf"pat{_ALNUM}{{14}}"}, rf"{_HEX}{{64}}"),
)
_SIGNS = "_-."
_NAMES = tuple(name for names in _BEGINNINGS.values() for name in names.split())
_ENDS_IN_SIGN = tuple(name for name in _NAMES if name[-1] in _SIGNS)
_LONGEST = max(map(len, _ENDS_IN_SIGN))
Find = Callable[[str], list[int]]


def _join_forms() -> str:
    # The digit tells a key from an identifier or a file name of the same form.
    named = (
        rf"(?:{'|'.join(map(re.escape, names.split()))})(?=[^\W\d]*\d|[\w./+=-]{{0,24}}\d){then}"
        for then, names in _BEGINNINGS.items()
    )
    inside = (f"(?:{'|'.join(reversed(before.values()))}){re.escape(sign)}{behind}" for sign, before, behind in _INSIDE)
    return rf"(?<![A-Za-z0-9])(?:{'|'.join([*named, *inside])})"


PATTERN = _join_forms()
"""Matches a key from its start on."""


def _find_by_sign(sign: str) -> Find:
    """Return a function that lists where keys may begin whose beginning ends with a sign."""
    # Few signs of a text have so many letters behind them; looking at what is before takes longer.
    last = "".join(sorted({name[-2] for name in _ENDS_IN_SIGN if name[-1] == sign}))
    # In a long row of signs only the first can follow a name.
    sign_of_key = rf"(?<=[{last}].)(?=[\w+=-]{{14}}|\d-[A-Z0-9])"
    long_after = re.compile(rf"{re.escape(sign)}(?:{sign_of_key}|{re.escape(sign)}{{15,}}+)")
    names = tuple(name for name in _ENDS_IN_SIGN if name[-1] == sign)

    def find(text: str) -> list[int]:
        starts = []
        for match in long_after.finditer(text):
            before = text[max(0, match.end() - _LONGEST) : match.end()]
            if before.endswith(names):
                starts += [match.end() - len(name) for name in names if before.endswith(name)]
        return starts

    return find


def _find_literal(literal: str) -> Find:
    """Return a function that lists where a text begins."""
    compiled = re.compile(re.escape(literal))
    return lambda text: [match.start() for match in compiled.finditer(text)]


def _find_by_inner_sign(sign: str, before: Mapping[int, str], behind: str) -> Find:
    """Return a function that lists where keys may begin that have a sign inside."""
    compiled = [
        (length, re.compile(rf"{re.escape(sign)}(?={behind})(?<=\b{form}{re.escape(sign)})"))
        for length, form in before.items()
    ]
    return lambda text: [match.start() - length for length, form in compiled for match in form.finditer(text)]


FINDERS: tuple[tuple[str, Find], ...] = (
    *((sign, _find_by_sign(sign)) for sign in _SIGNS),
    *((name, _find_literal(name)) for name in _NAMES if name[-1] not in _SIGNS),
    *((sign, _find_by_inner_sign(sign, before, behind)) for sign, before, behind in _INSIDE),
)
"""A text that every key of a kind has, and the function that lists where such keys may begin."""
