"""Redaction of what guards find: masked, in part, by a numbered placeholder, or by a keyed hash.

Equal values have equal numbers in all processes of a run. A value that was found once is found again where its detector does not
know it: `password: tr0ub4dor` is a finding; `Tr0UB4DOR`, or one with Cyrillic letters or zero-width characters in it, is none by
itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.features.guards.guard import Redaction
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import NoTwin
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.outcomes import Span
from pytest_crucible.records.serialize import texts_in

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import Experiment

GetNumber = Callable[[str, str], int]
"""Returns the number of a value, from its type and itself. Callable from any thread."""


class LocalNumbers:
    """Numbers the values of one process: the first value of a type is 1."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: str, value: str) -> int:
        with self._lock:
            numbers = self._numbers.setdefault(kind, {})
            return numbers.setdefault(value, len(numbers) + 1)


class SharedNumbers:
    """Numbers of all processes that share a folder and a key: a file for each number holds its value's keyed hash."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        # The hashes by number that this process has read, the first with number 1.
        self._read: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: str, value: str) -> int:
        with self._lock:
            return self._number(kind, _digest(self._key, value))

    def _number(self, kind: str, digest: str) -> int:
        numbers = self._read.setdefault(kind, {})
        while digest not in numbers:
            number = len(numbers) + 1
            numbers[self._claim(self._folder / f"{kind}_{number}", digest)] = number
        return numbers[digest]

    def _claim(self, file: Path, digest: str) -> str:
        """Write a hash to a file that is not there yet, or return the one that another process wrote."""
        own = self._folder / f"{os.getpid()}.new"
        own.write_text(digest)
        # A link is there with its content or not at all, and only one process can make it.
        with contextlib.suppress(FileExistsError):
            os.link(own, file)
        # What is written next must be another file.
        own.unlink()
        return file.read_text()


def _digest(key: bytes, value: str) -> str:
    return hmac.new(key, value.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


SHORTEST, SHORTEST_NUMBER = 4, 6
"""Characters of the shortest values that are searched for; shorter ones occur anywhere."""
LONG = 8
"""Characters from which a value is found inside of words, and across blanks."""
FEW = 50
"""Values up to which each is searched for by itself, which takes less time than reading the text character by character."""
_PREFIX = 4
ALIKE = 0.7
"""Similarity from which words of a changed text are taken for a changed value: a typo in six letters has 0.83."""

_AROUND = ".,;:!?\"'()[]{}<>"
"""Punctuation around a word, which is not part of a value."""

Exchange = Callable[[Iterable[tuple[str, str]]], Iterable[tuple[str, str]]]
"""Passes new (type, value) pairs to the other processes of a run, and returns those that they have found."""


def keep_to_itself(new: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Exchange nothing: one process has all values."""
    return ()


class FoundValues:
    """The values found in a run. Callable from any thread."""

    def __init__(
        self,
        fold: Callable[[str], str],
        forms: Callable[[str], Iterable[str]] = lambda _: (),
        exchange: Exchange = keep_to_itself,
    ) -> None:
        """`fold` returns a character without disguise, empty for blanks and invisible ones; `forms` returns texts decoded."""
        self._table = _FoldTable(fold)
        self._forms, self._exchange = forms, exchange
        self._types: dict[str, str] = {}
        """By folded value."""
        self._by_prefix: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._types)

    def fold(self, text: str) -> str:
        """Return a text as it is compared: equal values have equal numbers and hashes."""
        return text.translate(self._table) or text

    def learn(self, text: str, spans: Iterable[Span]) -> None:
        """Remember the findings in a text."""
        new = [(span.type, value) for span in spans if (value := text[span.start : span.end].translate(self._table))]
        self._add(self._exchange([pair for pair in new if self._add([pair])]))

    def learn_changed(self, original: str, changed: str) -> None:
        """Remember what the findings in a text have become where the text was changed, as by a typo in a password."""
        values = {(original[span.start : span.end], span.type) for span in self.find(original)}
        before, words = set(original.split()), changed.split()
        for value, kind in values:
            size = len(value.split())
            for count in range(max(size - 1, 1), size + 2):
                windows = (words[at : at + count] for at in range(len(words) - count + 1))
                for window in (" ".join(window) for window in windows if not before.issuperset(window)):
                    # Words around a value that is found already are not another value.
                    if self._is_alike(value, window) and not self.find(window):
                        stripped = window.strip(_AROUND) or window
                        self.learn(stripped, [Span(kind, 0, len(stripped))])

    def find(self, text: str) -> list[Span]:
        """Return where a text has one of the values, or a disguise of it; the whole text where it has one encoded."""
        self._add(self._exchange(()))
        if not self._types or not text:
            return []
        spans = list(self._places(text))
        if not spans:
            encoded = next((kind for form in self._forms(text) for kind in self._long_values(form)), None)
            spans = [] if encoded is None else [Span(encoded, 0, len(text))]
        return spans

    def _is_alike(self, value: str, window: str) -> bool:
        old, new = self.fold(value), self.fold(window.strip(_AROUND))
        # Two lengths rule most windows out, in a hundredth of the time.
        if min(len(old), len(new)) < ALIKE * max(len(old), len(new)):
            return False
        match = SequenceMatcher(None, old, new, autojunk=False)
        return match.quick_ratio() >= ALIKE and match.ratio() >= ALIKE

    def _add(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Add values, and return whether one of them is new."""
        is_new = False
        for kind, value in pairs:
            shortest = SHORTEST_NUMBER if value.isdigit() else SHORTEST
            if value not in self._types and len(value) >= shortest:
                with self._lock:
                    self._types[value] = kind
                    self._by_prefix.setdefault(value[:_PREFIX], []).append(value)
                is_new = True
        return is_new

    def _places(self, text: str) -> Iterator[Span]:
        folded = text.translate(self._table)
        origins: list[int] = []
        for start, value in self._matches(folded):
            # The place in the text of each folded character: only a text with a match is read one by one.
            origins = origins or [place for place, sign in enumerate(text) for _ in self._table[ord(sign)]]
            first, last = origins[start], origins[start + len(value) - 1] + 1
            if self._is_whole(text, first, last, value):
                yield Span(self._types[value], first, last)

    def _matches(self, folded: str) -> Iterator[tuple[int, str]]:
        if len(self._types) <= FEW:
            for value in tuple(self._types):
                start = folded.find(value)
                while start >= 0:
                    yield start, value
                    start = folded.find(value, start + 1)
            return
        for start in range(len(folded) - _PREFIX + 1):
            for value in self._by_prefix.get(folded[start : start + _PREFIX], ()):
                if folded.startswith(value, start):
                    yield start, value

    def _long_values(self, form: str) -> Iterator[str]:
        folded = form.translate(self._table)
        return (self._types[value] for _, value in self._matches(folded) if len(value) >= LONG)

    def _is_whole(self, text: str, first: int, last: int, value: str) -> bool:
        """Return whether a match is not a part of another word or number. Of long values a part is enough."""
        joined = str.isdigit if value.isdigit() else str.isalnum
        if len(value) >= LONG and not value.isdigit():
            return True
        has_blank = len(value) < LONG and any(map(str.isspace, text[first:last]))
        return not has_blank and not joined(self._next(text, first - 1, -1)) and not joined(self._next(text, last, 1))

    def _next(self, text: str, place: int, step: int) -> str:
        """Return the next visible character from a place on; a blank at the end of the text."""
        while 0 <= place < len(text):
            sign = text[place]
            if sign.isspace() or self._table[ord(sign)]:
                return sign
            place += step
        return " "


class _FoldTable(dict[int, str]):
    """The undisguised form of each character, as `str.translate` takes it; computed when first asked for."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, code: int) -> str:
        folded = self[code] = self._fold(chr(code))
        return folded


# Characters of a value that `partial` leaves at each end, and the shortest value of which it leaves any.
_LEFT_AT_START, _LEFT_AT_END, _SHORTEST_PARTIAL = 1, 4, 10
_HASH_DIGITS = 12
# The sixteen digits of a hash as letters: twelve decimal digits in a row would be taken for a telephone number.
_AS_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap, in order of place. Overlapping ones become one, of the type of the longest.

    >>> merge_spans([Span("URL", 0, 20), Span("IP_ADDRESS", 7, 16)])
    [Span(type='URL', start=0, end=20)]
    """
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged.pop()
            kind = span.type if span.end - span.start > longest else last.type
            longest = max(longest, span.end - span.start)
            merged.append(Span(kind, last.start, max(last.end, span.end)))
        else:
            merged.append(span)
            longest = span.end - span.start
    return merged


@dataclass(frozen=True, slots=True)
class RunRedaction:
    """The key of the hashes and the numbers of the placeholders that all redactions of one run share."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Of hashes; a new one for each run, so that hashes of two runs cannot be joined."""
    number: GetNumber = field(default_factory=LocalNumbers)
    exchange: Exchange = keep_to_itself
    """Passes values that were found to the other processes of the run."""
    process: str = ""
    """Part of placeholders where another process may give equal numbers to other values."""


class Redactor:
    """Replaces spans of texts. Equal values of a run get equal placeholders and hashes. Callable from any thread."""

    def __init__(self, how: Redaction, run: RunRedaction | None = None, canonical: Callable[[str], str] = str) -> None:
        """`canonical` returns a value as it is compared: those that it makes equal are equal."""
        self.how, self._canonical = how, canonical
        self._run = run or RunRedaction()

    def __call__(self, text: str, spans: Iterable[Span]) -> str:
        parts, end = [], 0
        for span in merge_spans(spans):
            parts += [text[end : span.start], self._replace(span.type, text[span.start : span.end])]
            end = span.end
        return "".join((*parts, text[end:])) if parts else text

    def _replace(self, kind: str, value: str) -> str:
        if self.how == "mask":
            return "*" * len(value)
        if self.how == "partial":
            left = len(value) - _LEFT_AT_START - _LEFT_AT_END
            is_long = len(value) >= _SHORTEST_PARTIAL
            return value[:_LEFT_AT_START] + "*" * left + value[-_LEFT_AT_END:] if is_long else "*" * len(value)
        value = self._canonical(value)
        if self.how == "hash":
            return f"<{kind}:{_digest(self._run.key, value)[:_HASH_DIGITS].translate(_AS_LETTERS)}>"
        process = f"_{self._run.process}" if self._run.process else ""
        return f"<{kind}{process}_{self._run.number(kind, value)}>"


_TICK_S = 0.05
"""A folder that changed within this time may change again without another time of its last change."""
_READY = ".values"


class SharedValues:
    """Writes new values to files, and reads those of other processes.

    They are masked with the run's key, which is on no disk: what a killed run leaves behind says nothing.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        self._read: set[str] = set()
        self._changed_ns = 0

    def __call__(self, new: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Pass on (type, value) pairs, and return those of other processes that were not returned before."""
        pairs = [list(pair) for pair in new]
        if pairs:
            self._write(json.dumps(pairs).encode())
        changed_ns = self._folder.stat().st_mtime_ns
        if changed_ns == self._changed_ns:
            return []
        if changed_ns < time.time_ns() - _TICK_S * 1e9:
            self._changed_ns = changed_ns
        return list(self._unread())

    def _unread(self) -> Iterator[tuple[str, str]]:
        for name in sorted(set(os.listdir(self._folder)) - self._read):
            if name.endswith(_READY):
                self._read.add(name)
                data = self._mask(name, (self._folder / name).read_bytes())
                yield from ((kind, value) for kind, value in json.loads(data))

    def _write(self, data: bytes) -> None:
        name = f"{os.getpid()}-{time.time_ns()}{_READY}"
        self._read.add(name)
        draft = self._folder / f"{name}.new"
        draft.write_bytes(self._mask(name, data))
        draft.rename(self._folder / name)

    def _mask(self, name: str, data: bytes) -> bytes:
        """Return the data combined with a stream that the key and the file's name give; twice, it is the data again."""
        stream = hashlib.shake_256(self._key + name.encode()).digest(len(data))
        return bytes(byte ^ other for byte, other in zip(data, stream, strict=True))


class FindingsRedactor:
    """A function that redacts the findings of a guard in a text, and values that it has found in other texts."""

    def __init__(self, find: Callable[[str], Iterable[Span]], redact: Redactor, values: FoundValues) -> None:
        self._find, self._redact = find, redact
        self._values = values
        self._known_early = 0

    def __call__(self, text: str) -> str:
        if not text:
            return text
        spans = tuple(self._find(text))
        self._values.learn(text, spans)
        return self._redact(text, [*spans, *self._values.find(text)])

    def found_late(self) -> bool:
        """Return whether values were found since the samples were read. Of a run's workers, any may have found them."""
        self._values.find(" ")
        return len(self._values) > self._known_early

    def learn_samples(self, experiments: Iterable[Experiment]) -> None:
        """Find what a run has to hide before anything of it is stored: in its samples, and in the twins of their variants."""
        planned = list(experiments)
        # All samples first: a twin is read with what any of them holds.
        for experiment in planned:
            for sample in experiment.dataset.samples:
                for text in texts_in([sample.id, sample.group, sample.input, sample.expected, sample.metadata]):
                    self(text)
        for experiment in planned:
            for sample in experiment.dataset.samples:
                twins = (variant.twin(sample.id) for variant in experiment.variants)
                self.learn_changed(sample.input, [twin.input for twin in twins if not isinstance(twin, NoTwin)])
        self._known_early = len(self._values)

    def learn_changed(self, original: Any, changed: Iterable[Any]) -> None:
        """Find what the findings in an input have become where it was changed, by an attack or by a test."""
        text = "\n".join(texts_in(original))
        if self._values.find(text):
            for other in texts_in(list(changed)):
                self._values.learn_changed(text, other)


# -- what all processes of a run share --------------------------------------------------------------------------------------

_VALUES = "values"
PASSED = "crucible_redaction"
"""What a worker is passed: the key and the folder."""


def pass_redaction(config: pytest.Config) -> dict[str, str]:
    """Return the state with which all workers of pytest-xdist redact alike. The key is drawn for each run and never stored."""
    if _SHARED not in config.stash:
        folder = tempfile.mkdtemp(prefix="crucible-numbers-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        (Path(folder) / _VALUES).mkdir(mode=0o700)
        config.stash[_SHARED] = {"key": os.urandom(32).hex(), "folder": folder}
    return config.stash[_SHARED]


def run_redaction(config: pytest.Config) -> RunRedaction:
    """Return the common state of this run's redactions."""
    if _REDACTION not in config.stash:
        worker = getattr(config, "workerinput", {})
        shared = worker.get(PASSED) or (pass_redaction(config) if config.pluginmanager.hasplugin("dsession") else None)
        if shared is None:
            config.stash[_REDACTION] = RunRedaction()
        elif not Path(shared["folder"]).is_dir():
            # A worker on another machine numbers its placeholders by itself.
            config.stash[_REDACTION] = RunRedaction(bytes.fromhex(shared["key"]), process=worker["workerid"])
        else:
            key, folder = bytes.fromhex(shared["key"]), Path(shared["folder"])
            values = SharedValues(folder / _VALUES, key)
            config.stash[_REDACTION] = RunRedaction(key, SharedNumbers(folder, key), values)
    return config.stash[_REDACTION]


def session_redactor(
    config: pytest.Config, name: str, open_redactor: Callable[[str], FindingsRedactor]
) -> FindingsRedactor:
    """Return the function that redacts the findings of a guard, opened once. Raises pytest.UsageError where it cannot redact."""
    if _REDACTOR not in config.stash:
        try:
            config.stash[_REDACTOR] = open_redactor(name)
        except SpecError as error:
            raise pytest.UsageError(f"--crucible-redact={name}: {error}") from None
    return config.stash[_REDACTOR]


_SHARED = pytest.StashKey[dict[str, str]]()
_REDACTION = pytest.StashKey[RunRedaction]()
_REDACTOR = pytest.StashKey[FindingsRedactor]()
