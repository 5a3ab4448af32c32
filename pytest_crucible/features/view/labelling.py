"""The labels page of a run: its replies, the names of labels, and the file."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.datasets.labels import ID_COLUMNS, NOTE, SKIP, STRATUM, LabelTable, ReplyKey, key_of
from pytest_crucible.features.view.label_file import LabelFile
from pytest_crucible.features.view.label_queue import First, LabelQueue
from pytest_crucible.quick_dataclass import dataclass
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
    label_first: First | None = None,
) -> Labelling:
    """Return the labels page of a run, whose file it begins or continues. Raises SpecError."""
    if store.run(run)["status"] == "running":
        raise SpecError(
            f"run {run} has not finished: its samples come in order, so that no part of it is random; wait for its end"
        )
    names = read_names(label_names)
    person = read_person(labeler) if labeler else _login_name()
    file = LabelFile(path)
    first = _choose_first(path, file.table(), run, label_first)
    return Labelling(run, LabelQueue(store, run, first), file, names, person)


def _choose_first(path: Path, table: LabelTable, run: str, chosen: First | None) -> First:
    """Return which replies come first: as in the file, if it has labels. Raises SpecError for labels of another choice or run.

    An estimate has to know what its labels are a part of.
    """
    others = {row["run"] for row in table.rows} - {run}
    if others:
        raise SpecError(f"{path} has labels of run {min(others)}: name another file for those of run {run}")
    if not table.rows:
        return chosen or "random"
    begun: First = "random" if table.rows[0][STRATUM] == "all" else "disagreements"
    if chosen not in (None, begun):
        raise SpecError(f"{path} was begun with --label-first {begun}: continue it with that, or name another file")
    return begun


def read_names(text: str) -> tuple[str, ...]:
    """Return the names of labels, separated by commas, or by blanks if there is no comma. Raises SpecError."""
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
