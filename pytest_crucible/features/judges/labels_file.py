"""Labels of a judge's replies in a file of `crucible view --labels`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_crucible.datasets.labels import Label, ReplyKey, hash_reply, read_labels, split_person
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError


@dataclass(frozen=True)
class LabelsFile:
    """A person's labels, by which replies they are of."""

    path: Path
    person: str

    def version(self) -> str:
        """Return a hash that changes with the file, so that stored agreements are computed again. Raises SpecError."""
        return hashlib.sha256(self._content()).hexdigest()[:16]

    def find(self, reply: Reply, sample: Sample) -> Label | None:
        """Return the label of this very reply; None without one."""
        scored = current_reply()
        key = ReplyKey(scored.experiment, sample.id, scored.variant, hash_reply(reply.text))
        return _read(self.path, self.person, self.path.stat().st_mtime_ns).get(key)

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise SpecError(
                f"human={str(self.path)!r} cannot be read ({error.strerror}): write it with crucible view RUN --labels"
            ) from None


def labels_file(human: str | Path) -> LabelsFile | None:
    """Return the file that an argument names, relative to the working directory; None for a key of the metadata."""
    name, person = split_person(human)
    return LabelsFile(Path(name), person) if name.endswith(".csv") else None


@lru_cache(maxsize=8)
def _read(path: Path, person: str, changed: int) -> Mapping[ReplyKey, Label]:
    """Return the labels of a file, which is read again after a change."""
    return read_labels(path, person)
