"""`crucible data contamination`: the samples that a model may have been trained on, or has memorised."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import REGISTRY, AdapterContext, files_folder
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.open_backend import open_backend, prepare_adapter
from pytest_crucible.adapters.opened_arm import describe_arm
from pytest_crucible.adapters.untrained import Untrained, explain_untrained
from pytest_crucible.adapters.versions import changed_weights, find_version, is_version, version_adapter
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.builtin import find_release
from pytest_crucible.commands.options import (
    embeddings_option,
    field_option,
    json_option,
    load_dataset,
    output_option,
    print_view,
    store_option,
)
from pytest_crucible.commands.tinker import project_services
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.columns import text_of
from pytest_crucible.datasets.contamination.compare import (
    Similar,
    compare_with_file,
    compare_with_rows,
    find_similar_embeddings,
    open_embed,
    sample_texts,
)
from pytest_crucible.datasets.contamination.matching import NEAR_MATCH, TrainingText, read_training_rows, training_rows
from pytest_crucible.datasets.contamination.view import overlap_view
from pytest_crucible.records import Adapter, Sample
from pytest_crucible.records.contamination import Overlap
from pytest_crucible.records.errors import BackendError, DatasetError, NotEnoughData, SpecError
from pytest_crucible.records.number_format import p_equals
from pytest_crucible.records.object_reference import import_from_here
from pytest_crucible.records.registry import Version
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import DEFAULT_ALPHA, Settings
from pytest_crucible.report.markdown import check_format
from pytest_crucible.runs.memorisation import run_min_k_test, run_order_test
from pytest_crucible.runs.run_store import existing_store


@click.command("contamination", short_help="The samples that a model may have been trained on.")
@click.argument("name")
@click.option("--against", multiple=True, metavar="FILE", help="Training file, or name of a dataset; may be repeated.")
@click.option("--near", type=float, default=NEAR_MATCH, show_default=True, help="Jaccard similarity of a near match.")
@click.option(
    "--adapter", default="", metavar="NAME", help="Adapter, or version such as claims@4, to test for memorisation."
)
@click.option(
    "--order-test", is_flag=True, help="Is the file's own order more probable to the adapter than random ones?"
)
@click.option("--orders", type=int, default=99, show_default=True, help="Random orders of the order test.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random orders.")
@click.option(
    "--min-k", is_flag=True, help="Has the adapter gained more on NAME than on fresh texts? Needs --base and --fresh."
)
@click.option("--base", default="", metavar="NAME", help="Adapter of the base model, for --min-k.")
@click.option("--fresh", default="", metavar="FILE", help="Texts that no model has seen, for --min-k.")
@store_option
@embeddings_option
@field_option
@output_option
@json_option
def find_contamination(
    name: str,
    against: Sequence[str],
    near: float,
    embeddings: bool,
    fields: Sequence[str],
    output: Path | None,
    as_json: bool,
    **tests: Any,
) -> int:
    """Compare a dataset with training files row by row, or test whether an adapter has memorised it.

    NAME is a dataset's name or the path of a file. Exits 1 when a sample matches a row, and when memorisation is proven.
    """
    requested = RequestedTests(**tests, fields=fields)
    requested.check()
    if not (against or requested.adapter):
        raise SpecError("there is nothing to compare with: name the training file, such as --against train.jsonl")
    if not 0.5 <= near <= 1:
        raise SpecError(f"--near {near:g} is not a similarity from 0.5 to 1: write for example --near 0.8")
    if output is not None:
        check_format(output)
    samples, _ = load_dataset(name, fields)
    overlaps = [_compare(name, samples, file, near) for file in against]
    if embeddings and not against:
        raise SpecError("--embeddings compares texts with a training file: add --against FILE")
    similar = _find_similar(samples, against) if embeddings else None
    lines, document, memorised = run_tests(requested, name, samples) if requested.adapter else ([], {}, False)
    view = overlap_view(name, overlaps, lines, document, similar)
    print_view(view, output, as_json=as_json)
    return int(memorised or any(overlap.matches for overlap in overlaps))


def _find_similar(samples: Sequence[Sample], against: Sequence[str]) -> list[tuple[str, Similar]]:
    """Return the samples with similar embeddings, by file."""
    embed, texts = open_embed(), sample_texts(samples)
    return [(file, entry) for file in against for entry in find_similar_embeddings(texts, _rows(file), embed)]


def _rows(against: str) -> Iterable[TrainingText]:
    release = find_release(against)
    return read_training_rows(Path(against)) if release is None else training_rows(release)


def _compare(name: str, samples: Sequence[Sample], against: str, near: float) -> Overlap:
    """Return the comparison with a file or a named dataset. Raises DatasetError for one that cannot be read."""
    release = find_release(against)
    if release is not None:
        return compare_with_rows(samples, training_rows(release), file=against, near=near)
    sha256 = identify(name, samples).sha256
    overlap = compare_with_file(samples, Path(against), dataset_sha256=sha256, name=against, near=near)
    if overlap.problem:
        raise DatasetError(f"--against {against} cannot be checked: {overlap.problem}")
    return overlap


@dataclass(frozen=True)
class RequestedTests:
    """The tests of memorisation that a command has to run."""

    adapter: str
    order_test: bool
    orders: int
    seed: int
    min_k: bool
    base: str
    fresh: str
    store: str
    """The run store, where versions such as `claims@4` are registered."""
    fields: Sequence[str] = ()
    """Names of fields, such as `input=question`, in the dataset and in the fresh file."""

    @property
    def level(self) -> float:
        """The error rate of each test: two tests of one question share it (Bonferroni)."""
        return DEFAULT_ALPHA / (self.order_test + self.min_k)

    def check(self) -> None:
        """Raise SpecError for options that lack others."""
        if self.min_k and not (self.base and self.fresh):
            raise SpecError("--min-k needs --base and --fresh: without them it only shows which texts are easy")
        if not self.min_k and (self.base or self.fresh):
            raise SpecError("--base and --fresh are for --min-k: add it, or leave them out")
        if (self.order_test or self.min_k) and not self.adapter:
            option = "--order-test" if self.order_test else "--min-k"
            raise SpecError(f"{option} needs --adapter: name the adapter to test, such as --adapter v2")
        if self.adapter and not (self.order_test or self.min_k):
            raise SpecError("--adapter needs a test: add --order-test, or --min-k with --base and --fresh")
        if self.orders < 1:
            raise SpecError(f"--orders {self.orders} is not a number of orders: write for example --orders 99")


NOT_THE_ORDER = (
    "  a file that was read in another order, as trainers that shuffle read it, is not found so: use --min-k"
)


def run_tests(
    requested: RequestedTests, name: str, samples: Sequence[Sample]
) -> tuple[list[str], dict[str, Any], bool]:
    """Return lines, the JSON document, and whether memorisation is proven. Raises SpecError."""
    adapters = Adapters(Path.cwd(), requested.store)
    texts = [text_of(sample.input) for sample in samples]
    lines: list[str] = []
    document: dict[str, Any] = {}
    p_values = []
    try:
        if requested.order_test:
            line, document["order_test"] = _test_order(requested, adapters, name, texts)
            lines.append(line)
            p_values.append(document["order_test"]["p"])
            if p_values[0] > requested.level:
                lines.append(NOT_THE_ORDER)
        if requested.min_k:
            line, document["min_k"] = _test_min_k(requested, adapters, name, texts)
            lines.append(line)
            p_values.append(document["min_k"]["p"])
    except (BackendError, NotEnoughData) as error:
        raise SpecError(f"adapter {requested.adapter!r}: {error}") from error
    finally:
        adapters.close()
    return lines, document, min(p_values) <= requested.level


def _test_order(
    requested: RequestedTests, adapters: Adapters, name: str, texts: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    backend = adapters.open_scorer(requested.adapter, "--order-test")
    test = asyncio.run(run_order_test(backend, texts, orders=requested.orders, seed=requested.seed))
    proven = test.p_value <= requested.level
    line = (
        f"order test of {requested.adapter}: the order of {name} is {'' if proven else 'not '}proven to be more probable than "
        f"{requested.orders} random orders ({p_equals(test.p_value)}; {test.gain:+.1f} nats, n = {len(texts):,}, "
        f"seed {requested.seed})"
    )
    document = {"adapter": requested.adapter, "p": test.p_value, "gain_nats": test.gain, "orders": requested.orders}
    return line, {**document, "samples": len(texts), "seed": requested.seed}


def _test_min_k(
    requested: RequestedTests, adapters: Adapters, name: str, texts: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    try:
        fresh, _ = load_dataset(requested.fresh, requested.fields)
    except DatasetError as error:
        raise DatasetError(f"--fresh {requested.fresh} cannot be read with the fields of {name}: {error}") from None
    candidate, base = (adapters.open_scorer(adapter, "--min-k") for adapter in (requested.adapter, requested.base))
    fresh_texts = [text_of(sample.input) for sample in fresh]
    test = asyncio.run(run_min_k_test(candidate, base, texts, fresh_texts))
    proven = test.p_value <= requested.level
    line = (
        f"min-20% of {requested.adapter} minus {requested.base}: {name} is {'' if proven else 'not '}proven to have gained "
        f"more than {requested.fresh} ({p_equals(test.p_value)}; AUROC {test.auroc:.3f}, n = {test.n[0]:,} and {test.n[1]:,})"
    )
    document = {"adapter": requested.adapter, "base": requested.base, "fresh": requested.fresh, "p": test.p_value}
    return line, {**document, "auroc": test.auroc, "n": test.n, "means": test.means}


class Adapters:
    """Opens adapters of this directory's configuration, and closes what they have started."""

    def __init__(self, root: Path, store: str) -> None:
        """`store` has the registered versions."""
        # Recipes and scripts lie here, beside the tests.
        import_from_here()
        self._root, self._store = root, store
        self._configured = read_adapters(root)
        self._closers: list[Callable[[], object]] = []

    def open_scorer(self, name: str, option: str) -> ScoresPrompts:
        """Return the backend of an adapter, or of a registered version. Raises SpecError for one that cannot score prompts."""
        version = self._find_version(name)
        adapter = find_adapter(name, self._configured) if version is None else self._version_adapter(version)
        kind = kind_of(adapter)
        typed_in = None if name in self._configured or version is not None else Path.cwd()
        backend: Any = None if kind.members or "seeds" in adapter.options else self._open(adapter, typed_in)
        if isinstance(backend, Untrained):
            raise SpecError(explain_untrained([backend.recipe]))
        if not isinstance(backend, ScoresPrompts):
            raise SpecError(
                f"{option}: adapter {name!r} ({adapter.backend}) cannot score prompts; use a backend with prompt logprobs"
            )
        # An identity with settings of features, such as guards, names these too, and they do not take part here.
        if version is not None and not adapter.settings and self._identify(adapter, backend) != version.identity:
            raise changed_weights(version.name)
        return backend

    def close(self) -> None:
        """Stop services that were started."""
        for close in self._closers:
            close()

    def _find_version(self, name: str) -> Version | None:
        """Return the registered version that a name means; None for the name of another adapter. Raises SpecError."""
        if name in self._configured or not is_version(name):
            return None
        with existing_store(self._store) as store:
            return find_version(store, name)

    def _version_adapter(self, version: Version) -> Adapter:
        return version_adapter(version, files_folder(self._root, self._store) / REGISTRY, self._root)

    def _identify(self, adapter: Adapter, backend: Any) -> str:
        return describe_arm(adapter, "candidate", backend, root=self._root, trained_on={}).identity

    def _open(self, adapter: Adapter, typed_in: Path | None) -> Backend:
        context = self._context()
        return open_backend(prepare_adapter(adapter, context, self._configured, typed_in), context, None)

    def _context(self) -> AdapterContext:
        return AdapterContext(
            root=self._root,
            invocation_folder=Path.cwd(),
            settings=_default_settings(),
            shared=BackendContext(),
            open_user_backend=lambda adapter: None,
            tinker=self._tinker,
            display=_no_display,
        )

    def _tinker(self) -> Any:
        secrets = secrets_in(to_plain(list(self._configured.values())), os.environ)
        services = project_services(self._root, secrets=secrets)
        self._closers.append(services.close)
        return services


def _default_settings() -> Settings:
    # Imports pytest, which the program's other commands do without.
    from pytest_crucible.options import OPTIONS

    defaults: dict[str, Any] = {option.name: () if option.repeats else option.default for option in OPTIONS}
    return Settings(**defaults)


def _no_display(recipe: Any) -> Any:
    raise SpecError(f"adapter {recipe.adapter!r} is not trained yet: run pytest --crucible-train first")
