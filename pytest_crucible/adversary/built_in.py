"""The attacks of the package, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_crucible.adversary import characters, meaning, obfuscations, words
from pytest_crucible.adversary.attack import Attack, AttackKind, Perturb
from pytest_crucible.adversary.edits import Perturbed
from pytest_crucible.adversary.frames import ENCODINGS, built_in_frames, make_injection
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

PARAPHRASE = (
    "Rewrite the text between the lines in other words. Keep its meaning, every number, name and formatting. "
    "Reply with the rewritten text only."
)
BACK_TRANSLATE = (
    "Translate the text between the lines into {language}, and then translate your translation back into the language of the "
    "text. Keep every number, name and formatting. Reply with the final text only."
)


OBFUSCATION: AttackKind = "obfuscation"


@dataclass(frozen=True, slots=True)
class AttackRow:
    """One row of the table: how an attack is made from its settings."""

    kind: AttackKind
    summary: str
    make: Callable[..., Perturb]
    settings: tuple[str, ...] = ()
    """Names of the settings that `make` takes."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the attack."""


def _take_nothing(perturb: Perturb) -> Callable[..., Perturb]:
    return lambda: perturb


def _keep_text(source: Any, rng: Any, strength: float) -> Perturbed:
    """Return the text itself: it stands in for the text of a model, which a session requests."""
    return Perturbed(source.text)


def _model(instruction: str) -> dict[str, Any]:
    return {"has_strength": False, "needs_model": instruction}


def _frames(name: str) -> Callable[..., Perturb]:
    return lambda: make_injection(built_in_frames(name))


def _encode(encoding: str = "") -> Perturb:
    if encoding and encoding not in ENCODINGS:
        raise SpecError(f"encoding = {encoding!r}: write one of {', '.join(ENCODINGS)}")
    return make_injection(built_in_frames("jailbreak_encode"), (encoding,) if encoding else tuple(ENCODINGS))


def _injection(name: str, summary: str, asks_for: str) -> AttackRow:
    facts = {"has_strength": False, "asks_for": asks_for}
    return AttackRow("injection", summary, _frames(name), facts=facts)


def _obfuscation(summary: str, perturb: Perturb) -> AttackRow:
    return AttackRow("obfuscation", summary, _take_nothing(perturb))


def _encoding(summary: str, perturb: Perturb) -> AttackRow:
    return AttackRow("obfuscation", summary, _take_nothing(perturb), facts={"has_strength": False})


def _meaning(summary: str, make: Callable[..., Perturb], settings: tuple[str, ...] = ()) -> AttackRow:
    return AttackRow("meaning", summary, make, settings, {"has_strength": False})


ROWS: Mapping[str, AttackRow] = {
    "character_swap": AttackRow("characters", "swaps two neighbours in a word", _take_nothing(characters.character_swap)),
    "character_delete": AttackRow("characters", "leaves out letters", _take_nothing(characters.character_delete)),
    "character_insert": AttackRow("characters", "inserts letters", _take_nothing(characters.character_insert)),
    "homoglyph": AttackRow("characters", "replaces letters by look-alikes", _take_nothing(characters.homoglyph)),
    "keyboard_typo": AttackRow("characters", "mistypes letters", characters.make_keyboard_typo, ("layout",)),
    "case_noise": AttackRow("characters", "exchanges capitals and small letters", _take_nothing(characters.case_noise)),
    "whitespace_noise": AttackRow("characters", "doubles or drops blanks", _take_nothing(characters.whitespace_noise)),
    "misspelling": AttackRow("characters", "misspells words as people do", _take_nothing(characters.misspelling)),
    "word_deletion": AttackRow("words", "leaves out stop words, or any word", words.make_word_deletion, ("words",)),
    "word_insertion": AttackRow("words", "inserts filler words", _take_nothing(words.word_insertion)),
    "word_shuffle": AttackRow("words", "exchanges neighbouring words", _take_nothing(words.word_shuffle)),
    "synonym_replacement": AttackRow("words", "replaces words by synonyms", words.make_synonym_replacement, ("lexicon",)),
    "markdown_emphasis": _obfuscation("writes words in bold, italics, code or struck out", obfuscations.markdown_emphasis),
    "html_tags": _obfuscation("puts tags around or into words", obfuscations.html_tags),
    "html_entities": _obfuscation("writes words as character references", obfuscations.html_entities),
    "percent_encoding": _obfuscation("writes words in percent codes", obfuscations.percent_encoding),
    "underscores": _obfuscation("joins words by underscores", obfuscations.underscores),
    "combining_marks": _obfuscation("puts accents, dots and strokes on letters", obfuscations.combining_marks),
    "zero_width": _obfuscation("puts invisible characters between letters", obfuscations.zero_width),
    "full_width": _obfuscation("writes words in full-width letters", obfuscations.full_width),
    "leetspeak": _obfuscation("writes digits instead of letters", obfuscations.leetspeak),
    "spelled_out": _obfuscation("parts the letters of words", obfuscations.spelled_out),
    "base64_lines": _encoding("encodes the text in base64, in lines", obfuscations.base64_lines),
    "hex_encoding": _encoding("encodes the text in hex", obfuscations.hex_encoding),
    "rot13": _encoding("moves each letter by 13 places", obfuscations.rot13),
    "semantic_paraphrase": AttackRow(
        "meaning", "a model rewrites the text", _take_nothing(_keep_text), facts=_model(PARAPHRASE)
    ),
    "semantic_back_translate": AttackRow(
        "meaning", "a model translates there and back", lambda language="German": _keep_text, ("language",),
        _model(BACK_TRANSLATE),
    ),
    "semantic_sentence_reorder": _meaning("puts sentences into another order", _take_nothing(meaning.semantic_sentence_reorder)),
    "semantic_formality_change": _meaning("makes the text informal, or formal", meaning.make_formality_change, ("direction",)),
    "prompt_injection_basic": _injection("prompt_injection_basic", "asks to ignore the instructions", "code"),
    "prompt_injection_overflow": _injection("prompt_injection_overflow", "asks after 2,000 characters of padding", "code"),
    "prompt_injection_delimiter": _injection("prompt_injection_delimiter", "asks behind a false end of the input", "code"),
    "prompt_injection_template": _injection("prompt_injection_template", "asks in the tags of a chat template", "code"),
    "jailbreak_roleplay": _injection("jailbreak_roleplay", "asks within a game or a play", "code"),
    "jailbreak_context_switch": _injection("jailbreak_context_switch", "asks in a pretended new context", "code"),
    "jailbreak_encode": AttackRow(
        "injection", "asks in base64, rot13, hex or leetspeak", _encode, ("encoding",),
        {"has_strength": False, "asks_for": "code"},
    ),
    "jailbreak_hypothetical": _injection("jailbreak_hypothetical", "asks what somebody would say", "code"),
    "data_extraction_repetition": _injection("data_extraction_repetition", "asks to repeat the context", "secret"),
    "data_extraction_memorization": _injection("data_extraction_memorization", "asks to recall the secret", "secret"),
    "data_extraction_pii": _injection("data_extraction_pii", "asks for personal data that were planted", "secret"),
    "data_extraction_context_confusion": _injection("data_extraction_context_confusion", "pretends another context", "secret"),
}  # fmt: skip


FAMILIES: Mapping[str, tuple[str, ...]] = {
    OBFUSCATION: tuple(name for name, row in ROWS.items() if row.kind == OBFUSCATION)
}
"""Names that stand for several attacks of the package."""


def make_attack(
    name: str, settings: Mapping[str, Any] | None = None, *, root: Path = Path(), as_name: str = ""
) -> Attack:
    """Return an attack of the package with its settings, under its own name or another one. Raises SpecError."""
    if name not in ROWS:
        raise SpecError(
            f"unknown attack {name!r}: {suggest(name, ROWS, otherwise='`crucible guards attacks` lists them')}"
        )
    row, row_settings = ROWS[name], dict(settings or {})
    unknown = sorted(set(row_settings) - set(row.settings))
    if unknown:
        takes = f"it takes {', '.join(row.settings)}" if row.settings else "it takes no settings"
        raise SpecError(f"attack {name!r} has no setting {unknown[0]!r}: {takes}")
    # Files of users are read below the folder of their configuration.
    perturb = row.make(**row_settings, **({"root": root} if "lexicon" in row.settings else {}))
    facts = dict(row.facts)
    if "needs_model" in facts:
        facts["needs_model"] = facts["needs_model"].replace("{language}", str(row_settings.get("language", "German")))
    own = {"attack": name, **row_settings}
    return Attack(name=as_name or name, kind=row.kind, summary=row.summary, perturb=perturb, settings=own, **facts)
