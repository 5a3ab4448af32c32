"""Texts that would break a terminal, a report, a database or another format, if they could."""

from __future__ import annotations

import re

HOSTILE = {
    "long": "a" * 10_000_000,
    "lines": "\n" * 1_000_000,
    "groups": "1" + ",111" * 200_000 + "1",
    "digits": "9" * 1_000_000,
    "spaces": " \t" * 500_000 + "x",
    "brackets": "[" * 200_000,
    "html": "</td><script>alert(1)</script><![CDATA[]]>&amp;&#0;",
    "ansi": "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1bP+q\x1b\\",
    "controls": "".join(map(chr, [*range(1, 32), 0x7F, *range(0x80, 0xA0)])),
    "return": "safe\rdangerous",
    "bidi": "\u202eright to left\u2066\u200b\ufeff",
    "nul": "a\0b",
    "half": "\ud800 and \udfff",
    "format": "%s %(x)s {0} {x!r} ${x}",
    "sql": "'); DROP TABLE replies; --",
    "fence": "```" * 50_000,
}
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What no output may have as it is."""
