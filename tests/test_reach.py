"""Each module is reached from an entry point, a table or a page; each public statistic is used, documented or a textbook's."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest_crucible
from pytest_crucible import stats
from pytest_crucible.features import all_features

ROOT = Path(pytest_crucible.__file__).parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "pytest_crucible").rglob("*.py"))
}
DOTTED = re.compile(r"[a-z_]\w*(\.\w+)*(:\w+)?")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTBOOK = {
    *(
        "one_sample_t",
        "paired_t",
        "student_t",
        "welch_t",
        "mann_whitney",
        "wilcoxon_signed_rank",
        "anova_oneway",
        "kruskal_wallis",
    ),
    *(
        "levene",
        "variance_ratio",
        "shapiro_wilk",
        "chi2_independence",
        "chi2_goodness_of_fit",
        "pearson",
        "spearman",
        "kendall",
    ),
    *(
        "cohens_d",
        "cohens_dz",
        "cohens_dav",
        "cohens_h",
        "hedges_g",
        "glass_delta",
        "cles",
        "cliffs_delta",
        "odds_ratio_score",
    ),
    *(
        "risk_ratio_score",
        "bootstrap",
        "power_t",
        "samples_for_t",
        "detectable_t",
        "power_anova",
        "samples_for_anova",
        "adjust",
        "holm",
    ),
}
"""What every package of statistics has: `stats` keeps it, although no verdict uses all of it."""


def stub_homes(package: str) -> dict[str, str]:
    """Return the module of each lazy name in the stub of a package."""
    stub = FILES[package].with_suffix(".pyi")
    if FILES[package].name != "__init__.py" or not stub.exists():
        return {}
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    return {
        alias.name: f"{package}.{node.module}" if node.level else f"{node.module}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@functools.cache
def homes(package: str) -> dict[str, str]:
    return stub_homes(package)


def named_modules(text: str, module: str) -> Iterator[str]:
    """Yield the modules that a text in a table names: whole, below this package, or below the module's own."""
    yield from (name for name in re.findall(r"pytest_crucible(?:\.\w+)+", text) if name in FILES)
    text = text.removeprefix(".")  # the rest of an f-string that begins with a package
    if DOTTED.fullmatch(text):
        path = text.partition(":")[0]
        parent = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
        candidates = (path, f"pytest_crucible.{path}", f"{parent}.{path}", f"pytest_crucible.stats.{path}")
        yield from (name for name in candidates if name in FILES)


def used_modules(module: str) -> Iterator[str]:
    """Yield the modules that a module imports, anywhere in it, or names in a text."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    packages: dict[str, str] = {}
    # The names of these packages are for users; those of `stats` need a reason of their own.
    yield from set() if module == "pytest_crucible.stats" else homes(module).values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.module
                yield homes(node.module).get(alias.name, full) if node.module in FILES else full
                packages[alias.asname or alias.name] = full
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from named_modules(node.value, module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            package = packages[node.value.id]
            if package in FILES:
                yield homes(package).get(node.attr, f"{package}.{node.attr}")


def entry_points() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plugins = project["entry-points"].values()
    targets = [*project["scripts"].values(), *(target for group in plugins for target in group.values())]
    features = {feature.plugin_module for feature in all_features()}
    return {target.partition(":")[0] for target in targets} | features | {"pytest_crucible", "pytest_crucible.__main__"}


def documented_modules() -> set[str]:
    """Return the modules that a page names by path, imports from, or calls as `stats.name`."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    modules = {name for name in re.findall(r"pytest_crucible(?:\.\w+)+", text) if name in FILES}
    return modules | {home for name, home in homes("pytest_crucible.stats").items() if f"stats.{name}" in text}


def with_parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[: size + 1]) for size in range(len(parts))}


def test_each_module_is_reached():
    reached: set[str] = set()
    waiting = entry_points() | documented_modules() | {homes("pytest_crucible.stats")[name] for name in TEXTBOOK}
    while waiting:
        module = waiting.pop()
        new = {name for name in with_parents(module) if name in FILES} - reached
        reached |= new
        waiting |= {name for each in new for name in used_modules(each)}

    assert not sorted(set(FILES) - reached)


def test_each_public_statistic_is_used_documented_or_a_textbooks():
    outside = [path for name, path in FILES.items() if not name.startswith("pytest_crucible.stats")]
    words = {word for path in [*outside, *PAGES] for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    results = {name for name in dir(stats) if isinstance(getattr(stats, name), type)}

    assert not sorted(set(dir(stats)) - words - results - TEXTBOOK)
