"""The labels page of a run: its replies, the names of labels, and the file."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.datasets.labels import ID_COLUMNS, NOTE, SKIP, STRATUM, ReplyKey, key_of
from pytest_crucible.features.view.label_file import LabelFile
from pytest_crucible.features.view.label_queue import First, LabelQueue
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.store.runs import RunStore

LABEL_NAMES = f"good poor {SKIP}"
MOST_LABELS = 9
"""Each has a digit as its key."""
LONGEST_NAME, LONGEST_NOTE = 40, 4_000
_PERSON = re.compile(r"\w[\w .@'-]*")


@dataclass(frozen=True)
class Labelling:
    """The labels page of one run."""

    run: str
    queue: LabelQueue
    file: LabelFile
    names: tuple[str, ...]
    person: str
    """Whose labels they are where the page's address has no name."""

    def labelled_by(self, person: str) -> set[ReplyKey]:
        """Return the replies that a person has labelled."""
        return {key_of(row) for row in self.file.table().rows if row.get(person)}

    def own_cells(self, key: ReplyKey, person: str) -> tuple[str, str]:
        """Return a person's label and note of a reply; empty without one."""
        row = next((row for row in self.file.table().rows if key_of(row) == key), {})
        return row.get(person, ""), row.get(person + NOTE, "")


def open_labelling(
    store: RunStore,
    run: str,
    path: Path,
    *,
    label_names: str = LABEL_NAMES,
    labeler: str = "",
    label_first: First = "random",
) -> Labelling:
    """Return the labels page of a run, whose file it begins or continues. Raises SpecError."""
    if store.run(run)["status"] == "running":
        raise SpecError(
            f"run {run} has not finished: its samples come in order, so that no part of it is random; wait for its end"
        )
    names = read_names(label_names)
    person = read_person(labeler) if labeler else _login_name()
    file = LabelFile(path)
    for row in file.table().rows:
        is_of_run, is_random = row["run"] == run, row[STRATUM] == "all"
        if not is_of_run or is_random != (label_first == "random"):
            begun = (
                f"labels of run {row['run']}"
                if not is_of_run
                else f"labels begun with --label-first {_other(label_first)}"
            )
            raise SpecError(
                f"{path} has {begun}: name another file, so that estimates know what its labels are a part of"
            )
    return Labelling(run, LabelQueue(store, run, label_first), file, names, person)


def read_names(text: str) -> tuple[str, ...]:
    """Return the names of labels, which commas part, or blanks where there is no comma. Raises SpecError."""
    names = tuple(name.strip() for name in (text.split(",") if "," in text else text.split()))
    if not 1 <= len(set(names)) == len(names) <= MOST_LABELS or not all(
        0 < len(name) <= LONGEST_NAME for name in names
    ):
        raise SpecError(
            f"--label-names {text!r:.200} is not valid: write 1 to {MOST_LABELS} different names, such as {LABEL_NAMES!r}"
        )
    return names


def read_person(name: str) -> str:
    """Return the name of a person, which becomes that of a column. Raises SpecError for an invalid one."""
    if not _PERSON.fullmatch(name) or len(name) > LONGEST_NAME or name in ID_COLUMNS or name.endswith((NOTE, " ")):
        raise SpecError(
            f"{name!r:.80} cannot name a column of labels: write 1 to {LONGEST_NAME} letters, digits, blanks or . @ ' -"
        )
    return name


def _login_name() -> str:
    try:
        return read_person(getpass.getuser())
    # A container's user may have no name, or one of other signs.
    except (OSError, KeyError, ImportError, SpecError):
        return "me"


def token_of(site_token: str) -> str:
    """Return the token that a page sends with a label. The cookie has another one, which scripts cannot read."""
    return hmac.new(site_token.encode(), b"labels", hashlib.sha256).hexdigest()


def _other(first: First) -> First:
    return "disagreements" if first == "random" else "random"
