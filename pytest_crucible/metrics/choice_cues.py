"""Words that lead to a choice in running text, in the languages of common benchmarks, and patterns of a letter next to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_NOUNS = (
    r"answer(?:\schoice)?s?|ans\.?|solution|selection|choice(?=\s?[:=])|option(?=\s?[:=])|(?:final|correct|best|right|my|selected|chosen)\s"
    r"(?:option|choice|letter|one|selection|guess|response)|(?:option|statement|one)(?=\s(?:that|which|best)\s)|(?:my\s)?best\sguess|"
    r"antwort|lösung|respuesta|réponse|risposta|resposta|odpowiedź|antwoord|"
    r"ответ|svar|cevap|jawaban|đáp\sán|vastaus|정답|答案|答え|正解|回答|الإجابة|उत्तर"
)
_VERBS = r"is|are|was|be|ist|es|est|è|é|jest|är|er|là|adalah|это|seems|looks"
_ADVERBS = r"the|la|el|die|most\slikely|clearly|probably|definitely|likely|to\sbe|thus|therefore"
_FILLERS = rf"(?:(?:{_ADVERBS})\s)*(?:(?:option|choice|letter|answer)\s?)?"
# Possessive, because two of them may meet: a reply of brackets would take quadratic time.
_OPENING = r"[\s\"'“«(\[{<:>=,-]*+"
_CUES = (
    r"therefore|thus|hence|so|consequently|accordingly|in\sconclusion|overall|finally|leav(?:es|ing)(?:\sonly)?|left\swith|"
    r"(?:i|we)(?:\swould|'d|\swill|'ll|\sam|'m)?\s(?:choose|chose|pick|picked|select|selected|go(?:ing)?\swith|opt\sfor|vote\sfor|guess|say|think|believe)|"
    r"it'?s|it\sis|must\sbe|has\sto\sbe|probably|(?:most\s)?likely|but\srather|but|选择?|選擇?|\A(?:choose|select|pick)"
)


@lru_cache(maxsize=16)
def cue_patterns(letters: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a letter that is declared (`answer: B`), concluded (`so B`) or judged (`B is right`)."""
    letter = letter_pattern(letters)
    verb = rf"(?:[^.\n:=?]{{0,60}}?(?:\b(?:{_VERBS})\b|是|は|为|為|은|는))?"
    noun = rf"(?<![A-Za-z\u00c0-\u024f])(?:{_NOUNS})(?![a-z])(?:\scorrec?t[aeo])?[\"')\]]*"
    declared = rf"{noun}{verb}{_OPENING}(?:not\s\w+,?\sbut\s)?{_FILLERS}{_OPENING}{letter}"
    concluded = rf"(?<![A-Za-z\u00c0-\u024f])(?:{_CUES}){_OPENING}{_FILLERS}{_OPENING}{letter}"
    judged = (
        rf"(?P<option>(?:option|choice|answer)\s)?[(\[\"']?{letter}(?P<close>[)\]])?\"?,?\s"
        r"(?:it\sis(?=[.,!]|$)|(?:is|seems|looks|would\sbe|must\sbe|has\sto\sbe|appears\sto\sbe)\s"
        r"(?:(?:the|a|only|single|most|clearly|definitely|therefore|thus|likely|indeed)\s)*(?:correct|right|best|true|accurate|answer)|best\s\w+)\b"
    )
    patterns = {"declared": declared, "concluded": concluded, "judged": judged}
    return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns.items()}


def letter_pattern(letters: str) -> str:
    """Return a pattern of a single letter outside formulas.

    Only Latin letters join it to a word: in other scripts a word may follow it without a blank.
    """
    joined = r"A-Za-z0-9\u00c0-\u024f_"
    before, after = rf"(?<![{joined}+\\-])(?<![{joined}]')", rf"(?![{joined}+#^*-]|'[{joined}]|\s?[=^]|\s[+<>]\s)"
    return rf"{before}(?P<letter>[{re.escape(letters)}]){after}"
