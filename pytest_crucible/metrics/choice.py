"""Multiple choice: the letter that a reply chooses, as a reader would read it, and whether it is the expected one.

Each rule finds places where a reply states its choice; the place that comes last in the reply decides. A choice in a tag, in
`\\boxed{}` or under a key of JSON goes before all others.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

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


# Characters at the beginning and at the end of a longer reply that are read: a choice is stated there.
_READ = 4_000, 12_000
_BLANKS = re.compile(r"[ \t\u00a0]+")
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textrm|mathsf|bf)\s?\{([^{}]*)\}")
_MARKDOWN = re.compile(r"\*+|__|`+|\$|\\[()\[\]]")


def plain_text(text: str) -> str:
    """Return the text in common characters, without marks of emphasis and mathematics; lines stay."""
    if len(text) > sum(_READ):
        text = f"{text[: _READ[0]]}\n{text[-_READ[1] :]}"
    plain = unicodedata.normalize("NFKC", text).translate({0x2019: "'", 0x2013: "-", 0x2014: "-", 0x2192: "->"})
    return _BLANKS.sub(" ", _MARKDOWN.sub("", _LATEX.sub(r"\1", plain))).strip()


def option_named(plain: str, letters: str, options: Sequence[str]) -> str | None:
    """Return the letter of the only option whose text occurs; within another option's text it does not count."""
    if not options:
        return None
    reply = _words(plain)
    named = [place for place, option in enumerate(options) if _words(option).strip() and _words(option) in reply]
    longest = [
        place
        for place in named
        if not any(_words(options[place]) in _words(options[other]) != _words(options[place]) for other in named)
    ]
    is_denied = len(longest) == 1 and re.search(rf" not(?: the)?{re.escape(_words(options[longest[0]]))}", reply)
    return letters[longest[0]] if len(longest) == 1 and longest[0] < len(letters) and not is_denied else None


def _words(text: str) -> str:
    """Return the words of a text, each between blanks, so that a part of a word does not match."""
    words = re.findall(r"[-+]?[\w%](?:[.,-]?[\w%])*", unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(words)} "


# Stands for several letters at once, which do not count as a choice.
_SEVERAL = ""
_Place = tuple[int, str]
"""The position at which a choice ends in the reply, and its letter."""

# An article or a pronoun cannot precede these words, so that "A because" names the option.
_AFTER_LETTER = frozenset([
    "because", "since", "as", "for", "which", "due", "based", "but", "and", "or", "if", "when", "while", "with", "in", "on", "at",
    "by", "from", "per", "is", "would", "must", "seems", "rather", "than", "that",
])  # fmt: skip
_NEGATION = re.compile(
    r"(?:n't|\bnot|\bcannot|\bnever|\bunable\sto|\bwhether|\bif|\bunless|\bwhy|\bcould)(?:\s\w+){0,2}\s*$"
)
_MARKER = re.compile(r"^[\s\"'>#-]*\(?([A-Za-z])[).:](?=\s|$)", re.MULTILINE)
_INLINE_MARKER = re.compile(r"(?<!\w)\(?([A-Z])[).:](?=\s)")
_STRUCTURED = (
    r"<(?:final_?)?(?:answer|choice|option|final|b)>\s?(?P<content>[^<]{0,200})</",
    r"\\boxed\s?\{\s?(?P<content>[^{}]{0,200})\}",
    r"[\"'](?:final_?|correct_?)?(?:answer|choice|option|letter|label)[\"']\s?:\s?[\"'](?P<content>[^\"'\n]{0,200})[\"']",
)


def read_choice(text: str, letters: str, options: Sequence[str] = ()) -> str | None:
    """Return the letter; None if a reader could not decide. `options` are the options' texts, in the order of the letters.

    A reply without a letter that names exactly one of the options chooses it.
    """
    plain = plain_text(text)
    places = _find_structured(plain, letters) or list(_places(plain, letters))
    if places:
        return max(places)[1] or None
    return option_named(plain, letters, options)


def _find_structured(plain: str, letters: str) -> list[_Place]:
    """Return choices in tags, boxes and keys of JSON."""
    places = []
    for pattern in _STRUCTURED:
        for match in re.finditer(pattern, plain, re.IGNORECASE):
            content = match["content"].strip()
            letter = _whole(content, letters) or _leading(content, letters)
            if letter is not None:
                places.append((match.end(), letter))
    return places


def _places(plain: str, letters: str) -> Iterator[_Place]:
    """Yield the places in running text where a choice is stated."""
    yield from _alone(plain, letters)
    if not _is_list(plain) and (letter := _leading(plain, letters)) is not None:
        yield 1, letter
    rules = cue_patterns(letters)
    for match in rules["declared"].finditer(plain):
        if (letter := _after_cue(plain, match, letters, strict=False)) is not None:
            yield match.end(), letter
    for match in rules["concluded"].finditer(plain):
        letter = None if _is_denied(plain, match.start()) else _after_cue(plain, match, letters, strict=True)
        if letter is not None:
            yield match.end(), letter
    for match in rules["judged"].finditer(plain):
        letter = match["letter"]
        is_marked = letter.isupper() or match["close"] or match["option"]
        if is_marked and not _is_denied(plain, match.start()):
            yield match.end(), letter.upper()


def _is_denied(plain: str, start: int) -> bool:
    return _NEGATION.search(plain[max(0, start - 30) : start].lower()) is not None


def _after_cue(plain: str, match: re.Match[str], letters: str, *, strict: bool) -> str | None:
    """Return the letter that a cue leads to, "" for several; None if it is an article, a pronoun or part of a formula."""
    letter, rest = match["letter"], plain[match.end() : match.end() + 200]
    if re.match(r"[)\]\"']*\s?\?", rest):
        return None
    if _names_another(rest, letters):
        return _SEVERAL
    # "so A (London) cannot be right"
    if strict and re.match(r"\)? \([^()]*\) ?\w", rest):
        return None
    word = re.match(r" ([A-Za-z']+)", rest)
    if word is None:
        return letter.upper()
    is_name = word[1].lower() in _AFTER_LETTER and not (strict and word[1].lower() in ("is", "would", "must", "seems"))
    if strict or letter.islower():
        return letter.upper() if is_name else None
    if letter in "AI":
        return letter if is_name or word[1][0].isupper() else None
    return letter


def _names_another(rest: str, letters: str) -> bool:
    """Return whether another letter follows in the text after a letter: `A or B`, `A, B`, `A/B`."""
    joint = r"[)\]\"']*\s?(?:,\s?(?:or|and)?|/|&|or|and|und|oder|o|y|ou|et|和|或|、)\s?(?:option\s)?[(\[\"']?"
    return (
        re.match(rf"{joint}[{re.escape(letters)}](?![A-Za-z0-9'])(?!\)?\s(?:is|are|was|has|would|does)\b)", rest)
        is not None
    )


def _whole(line: str, letters: str) -> str | None:
    """Return the letter of a text that is nothing else."""
    pattern = rf"[\W_]*(?:(?:option|choice|letter)[\W_]+)?([{re.escape(letters)}])[^\w+#]*_*"
    match = re.fullmatch(pattern, line, re.IGNORECASE)
    return match[1].upper() if match else None


def _leading(text: str, letters: str) -> str | None:
    """Return the letter that a text begins with, as in `B) Paris`, `B, because` and `B Paris`; "" for several."""
    match = re.match(rf"[\s\"'(\[>#-]*(?:option\s)?[(\[]?{letter_pattern(letters)}", text, re.IGNORECASE)
    if match is None:
        return None
    rest = text[match.end() :]
    if _names_another(rest, letters):
        return _SEVERAL
    if re.match(r"[\"']?[)\].:,]*\s?(?:is|are|was)\b(?!\s(?:the|correct|right|best))", rest):
        return None
    if re.match(r"[\"']?[)\].:,;!](?=\s|$)|\s-\s|\n", rest):
        return match["letter"].upper()
    word = re.match(r" ([A-Za-z']+)", rest)
    if word is None or match["letter"].islower():
        return None
    is_title = word[1][0].isupper() and len(word[1]) > 1 and len(rest.split()) < 4
    return match["letter"] if word[1] in ("because", "since", "as", "for") or is_title else None


def _alone(plain: str, letters: str) -> Iterator[_Place]:
    """Yield letters that are a whole line or sentence, if these agree; of a line with a marked option, only the last."""
    lines = [(match.end(), _whole(match[0], letters)) for match in re.finditer(r"[^\n]+", plain)]
    places = [(end, letter) for end, letter in lines if letter]
    sentences = re.findall(r"(?<=[.!;:?])\s[(\"']?([A-Z])[)\"']?\.?$", plain)
    places += [(len(plain), letter) for letter in sentences if letter in letters]
    if len({letter for _, letter in places}) == 1:
        yield from places
    elif places:
        yield len(plain), _SEVERAL
    last = plain.rpartition("\n")[2]
    if "\n" in plain and not _is_list(plain) and _MARKER.match(last) and (letter := _leading(last, letters)):
        yield len(plain), letter


def _is_list(plain: str) -> bool:
    """Return whether lines are marked with several letters: options, or a discussion of each."""
    at_lines = {letter.upper() for letter in _MARKER.findall(plain)}
    return len(at_lines) > 1 or len(set(_INLINE_MARKER.findall(plain))) > 2


def choice_of(text: str, letters: str = "ABCD", options: Sequence[str] = ()) -> str | None:
    r"""Return the letter that a reply chooses, as a reader would read it; None if a reader could not decide.

    `options` are the options' texts: a reply without a letter that names exactly one of them chooses it.

    >>> choice_of("Let me think. The answer is (C)."), choice_of("Answer: A dog"), choice_of("b"), choice_of("A or B")
    ('C', None, 'B', None)
    >>> choice_of("Answer: a dog", options=["a cat", "a dog"])
    'B'
    """
    return read_choice(text, letters, options)


def chooses(letters: str = "ABCD", *, name: str = "chooses") -> Metric:
    """Return a metric that is true if the reply chooses the expected letter, or that of the expected number (0: the first).

    >>> chooses()(Reply(text="Answer: B"), Sample(id="1", input="", expected=1))
    True
    """

    @metric(name=name, kind="binary", version=f"2:{letters}")
    def right(reply: Reply, sample: Sample) -> bool | NotApplicable:
        """The reply chooses the expected letter."""
        expected = sample.expected
        if expected is None:
            return NO_EXPECTED
        if isinstance(expected, int) and 0 <= expected < len(letters):
            expected = letters[expected]
        if str(expected).strip().upper() not in letters:
            return NotApplicable(f"the expected answer {str(expected)[:20]!r} is not one of the letters {letters}")
        return choice_of(reply.text, letters, _options(sample, letters)) == str(expected).strip().upper()

    return right


choice_match = chooses(name="choice_match")
choice_match_10 = chooses(string.ascii_uppercase[:10], name="choice_match_10")


@metric(kind="binary", version="2")
def choice_given(reply: Reply, sample: Sample) -> bool:
    """A letter from A to D can be read out of the reply, right or wrong."""
    return choice_of(reply.text, options=_options(sample, "ABCD")) is not None


def _options(sample: Sample, letters: str) -> Sequence[str]:
    """Return the options' texts, where the sample has them: a list, or texts by letter, under `choices` or `options`."""
    options = sample.metadata.get("choices", sample.metadata.get("options"))
    if isinstance(options, Mapping):
        return [str(options.get(letter, "")) for letter in letters]
    return [str(option) for option in options] if isinstance(options, list | tuple) else ()


_NO_PROBABILITIES = NotApplicable(
    "the reply has no probabilities of choices: return await sampler.choose(prompt, choices) from the test"
)


@metric(kind="bounded", bounds=(0, 1), version="1")
def expected_score(reply: Reply, sample: Sample) -> float | NotApplicable:
    """The probability of the expected choice among all, of a reply of `sampler.choose` (Miller 2024, section 3.2).

    It has the same mean as right or wrong of sampled replies, without the noise of sampling. Choices are compared without the
    blanks around them; an expected answer that is not a choice scores 0.
    """
    if sample.expected is None:
        return NO_EXPECTED
    if not isinstance(reply.value, Mapping) or not reply.value:
        return _NO_PROBABILITIES
    expected = str(sample.expected).strip()
    return min(1.0, sum(float(p) for choice, p in reply.value.items() if str(choice).strip() == expected))
