"""Logistic regression on hashed n-grams of characters and words: a guard that learns from labelled texts, without an extra.

The weights are kept as safetensors, which cannot run code.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.features.guards.guard import GuardContext, GuardSettings, ScoredText
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

Floats = npt.NDArray[np.float64]
FORMAT = "crucible linear guard 1"
COLUMNS = 1 << 18
"""Columns that n-grams are hashed into: 662 texts have about 90,000 different ones."""
CHARACTERS, WORDS = (2, 3, 4, 5), (1, 2)
"""Lengths of n-grams."""
# The inverse of the penalty on squared weights. In five folds of 662 texts 10 and 30 separate alike; 10 is fitted in half the time.
STRENGTH = 10.0
MOST_STEPS = 100
# An attack needs no more, and a text of a megabyte would take a second.
MOST_CHARACTERS = 20_000
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class LinearModel:
    """Weights of hashed n-grams: a text's score is the logistic of their weighted sum."""

    weights: Floats
    """One weight a column; each already times the rarity of its n-grams."""
    rarity: Floats
    """The inverse document frequency of each column, by which a text's vector is scaled to length 1."""
    bias: float

    def score(self, text: str) -> float:
        """Return the probability of the positive class."""
        columns, values = _vector(count_ngrams(text), self.rarity)
        total = float(values @ self.weights[columns]) + self.bias
        return 1 / (1 + math.exp(-total)) if total > -700 else 0.0


def count_ngrams(text: str) -> Counter[int]:
    """Return how often each column of hashed n-grams occurs in a text."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]).lower())
    words = (f"w {' '.join(tokens[k : k + n])}" for n in WORDS for k in range(len(tokens) - n + 1))
    line = f" {' '.join(tokens)} "
    characters = (line[k : k + n] for n in CHARACTERS for k in range(len(line) - n + 1))
    return Counter(
        zlib.crc32(gram.encode("utf-8", "surrogatepass")) % COLUMNS for grams in (words, characters) for gram in grams
    )


def fit_linear(texts: Sequence[str], labels: Sequence[bool]) -> LinearModel:
    """Return the model of labelled texts; both classes weigh the same. Raises ValueError below two texts of a class.

    Minimises the logistic loss with a penalty on squared weights by L-BFGS (scipy.optimize.minimize).
    """
    from scipy import optimize

    signs = np.where(np.asarray(labels, dtype=bool), 1.0, -1.0)
    sizes = int((signs > 0).sum()), int((signs < 0).sum())
    if min(sizes) < 2:
        raise ValueError(
            f"there are {sizes[0]} attacks and {sizes[1]} benign texts: add texts until there are 2 of each"
        )
    counts = [count_ngrams(text) for text in texts]
    frequency = np.zeros(COLUMNS)
    for count in counts:
        frequency[list(count)] += 1
    rarity = np.where(frequency > 0, np.log((1 + len(texts)) / (1 + frequency)) + 1, 0.0)
    # Only columns that occur: the others keep the weight 0.
    used = np.flatnonzero(frequency)
    matrix = _matrix([_vector(count, rarity) for count in counts], used)
    shares = np.where(signs > 0, len(texts) / (2 * sizes[0]), len(texts) / (2 * sizes[1]))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, bias = parameters[:-1], parameters[-1]
        margins = signs * (matrix @ weights + bias)
        slopes = -signs * shares * np.exp(-np.logaddexp(0, margins))
        gradient = np.append(matrix.T @ slopes + weights / STRENGTH, slopes.sum())
        return float(shares @ np.logaddexp(0, -margins) + weights @ weights / (2 * STRENGTH)), gradient

    fitted = optimize.minimize(
        loss, np.zeros(used.size + 1), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    ).x
    weights = np.zeros(COLUMNS)
    weights[used] = fitted[:-1]
    return LinearModel(weights, rarity, float(fitted[-1]))


def _matrix(vectors: Sequence[tuple[npt.NDArray[np.int64], Floats]], used: npt.NDArray[np.int64]) -> Any:
    """Return the sparse matrix of texts x used columns."""
    from scipy import sparse

    place = np.zeros(COLUMNS, dtype=np.int64)
    place[used] = np.arange(used.size)
    columns = place[np.concatenate([columns for columns, _ in vectors])]
    ends = np.cumsum([0, *(columns.size for columns, _ in vectors)])
    values = np.concatenate([values for _, values in vectors])
    return sparse.csr_matrix((values, columns, ends), shape=(len(vectors), used.size))


def _vector(counts: Counter[int], rarity: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return columns and values of a text: logarithms of counts, weighted by rarity, of length 1. Unseen n-grams are left out."""
    columns = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
    values = (1 + np.log(np.fromiter(counts.values(), dtype=np.float64, count=len(counts)))) * rarity[columns]
    length = float(np.sqrt(values @ values))
    return columns, values / length if length else values


def save_linear(model: LinearModel, path: Path) -> None:
    """Write a model as safetensors. Raises OSError."""
    from safetensors.numpy import save

    tensors = {"weights": model.weights.astype(np.float32), "rarity": model.rarity.astype(np.float32)}
    # Python's own errors name the path and what is wrong with it.
    path.write_bytes(save(tensors | {"bias": np.array([model.bias], dtype=np.float32)}, metadata={"format": FORMAT}))


def load_linear(path: Path) -> LinearModel:
    """Return the model of a file. Raises ValueError for a file of another kind, and OSError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError(f"{path} is not a linear guard: make one with `crucible guards train`")
            weights, rarity, bias = (file.get_tensor(name).astype(np.float64) for name in ("weights", "rarity", "bias"))
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from None
    return LinearModel(weights, rarity, float(bias[0]))


class LinearGuard:
    """Scores a text by a fitted model, in a thread: a long text takes milliseconds."""

    def __init__(self, model: LinearModel, digest: str) -> None:
        self._model = model
        self.identity = f"linear {digest}"

    async def score(self, text: str) -> ScoredText:
        return ScoredText(await asyncio.to_thread(self._model.score, text))


def open_linear(settings: GuardSettings, context: GuardContext) -> LinearGuard:
    """Return the guard of the file `path`. Raises SpecError for a file that is missing or is not a linear guard."""
    path = context.root / str(settings.options["path"])
    try:
        return LinearGuard(load_linear(path), hashlib.sha256(path.read_bytes()).hexdigest())
    except FileNotFoundError:
        raise SpecError(
            f"{settings.place}: the file {path} does not exist: write it with `crucible guards train texts.csv -o {path.name}`"
        ) from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{settings.place}: {error}") from None
