"""Imports point down, stages never import each other, and only the entry modules and the session import pytest."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest_crucible

LAYERS = {
    "features": "features",
    "program": "cli __main__ commands",
    "pytest": "plugin signs options fixtures session",
    "runs": "runs",
    "adapters": "adapters",
    "tables": "builtin hookspecs",
    "sections": "sections",
    "stages": "plan sample score store analyse gate report",
    "libraries": "backends datasets metrics importers exports telemetry",
    "engines": "detectors local_model sandbox",
    "measures": "measures",
    "records": "records",
    "stats": "stats",
    "names and dataclasses": "feature_table lazy_names quick_dataclass",
}
PLUGGY = {
    "pytest_crucible.runs.plugins": {"pluggy"},
    "pytest_crucible.builtin": {"pluggy"},
    "pytest_crucible.hookspecs": {"pluggy"},
}
"""The program has plugins of its own, without pytest."""
TYPES_ONLY = {
    "pytest_crucible.builtin",
    "pytest_crucible.features",
    "pytest_crucible.features.row",
    "pytest_crucible.hookspecs",
}
"""Tables that import other rooms for types, or when a row is used."""
LIGHT = {"pytest_crucible.stats.interval", "pytest_crucible.stats.number_format"}
"""All that records may import of `stats`, which imports nothing else of this package: they need no numpy."""
WITHIN = {"program", "pytest"}
"""Layers whose folders and modules may import each other."""

ROOT = Path(pytest_crucible.__file__).parent
HEIGHT = {room: height for height, rooms in enumerate(reversed(LAYERS.values())) for room in rooms.split()}
LAYER = {room: layer for layer, rooms in LAYERS.items() for room in rooms.split()}
FILES = {
    ".".join(("pytest_crucible", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
MODULES = [name for name in FILES if name != "pytest_crucible"]


def room(module: str) -> str:
    """The folder of a module. The table of the features, which every room may read, is not one of the features."""
    _, name, *rest = module.split(".")
    is_table = name == "features" and rest in ([], ["row"])
    return "feature_table" if is_table else name


def feature(module: str) -> str:
    """The feature of a module; empty for the core."""
    return module.split(".")[2] if room(module) == "features" else ""


@functools.cache
def parse(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def imported_modules(module: str, *, only_at_import: bool = False) -> Iterator[str]:
    """All modules that a module imports: everywhere, or only what runs when it is itself imported."""
    tree = parse(module)
    # The specifications of hooks name the types of all rooms, and import none of them.
    only_at_import = only_at_import or module in TYPES_ONLY
    for node in _run_at_import(tree) if only_at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ([name for name in inner if name in FILES] or [node.module or ""])


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        typing_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not typing_only and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _run_at_import(child)


def ours(module: str, *, only_at_import: bool = False) -> list[str]:
    return [
        name for name in imported_modules(module, only_at_import=only_at_import) if name.startswith("pytest_crucible.")
    ]


def test_every_top_level_folder_has_a_layer():
    assert {room(module) for module in MODULES} == set(LAYER)


def points_down(module: str, name: str) -> bool:
    own, other = room(module), room(name)
    within = LAYER[other] == LAYER[own] and LAYER[own] in WITHIN
    if feature(name) != feature(module) and feature(name):
        return False
    return other == own or HEIGHT[other] < HEIGHT[own] or within


# One test for all modules: pytest takes longer to run a test than this one to look at a module.
def test_imports_point_down():
    wrong = [(module, name) for module in MODULES for name in ours(module) if not points_down(module, name)]

    assert not wrong, "must not import: " + "; ".join(
        f"{module} ({LAYER[room(module)]}) {name}" for module, name in wrong
    )


def test_records_import_only_the_light_modules_of_stats():
    imports = {name for module in MODULES if room(module) == "records" for name in ours(module)}
    allowed = {"numpy", "scipy"}.isdisjoint

    assert {name for name in imports if room(name) == "stats"} <= LIGHT
    assert all(allowed(name.split(".")[0] for name in imported_modules(module)) for module in LIGHT)


def test_only_entry_modules_features_and_the_session_import_pytest():
    wrong = [
        (module, name)
        for module in MODULES
        if LAYER[room(module)] != "pytest"
        # The hooks of a feature are also called by the program, which runs without pytest.
        for name in imported_modules(module, only_at_import=module.endswith(".plugin"))
        if (feature(module) == "" or module.endswith(".plugin"))
        and name.split(".")[0] in {"pytest", "_pytest", "xdist", *({"pluggy"} - PLUGGY.get(module, set()))}
    ]

    assert not wrong


def test_dataclasses_are_made_the_quick_way():
    other = [module for module in MODULES if module != "pytest_crucible.quick_dataclass"]
    names = {
        (module, alias.name)
        for module in other
        for node in ast.walk(parse(module))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
    }

    assert not [module for module, name in names if name == "dataclass"]


def test_there_is_no_import_cycle():
    """Nor where a function imports what it needs, or only types do; but for packages, which hand names on."""
    graph = {module: set(ours(module, only_at_import=FILES[module].name == "__init__.py")) for module in MODULES}

    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(MODULES)


def test_only_tables_of_public_names_name_a_module_of_a_feature():
    """The package and `datasets.checks` hand on names that users import; nothing else of the core knows where features lie."""
    core = [path for path in ROOT.rglob("*.py*") if path.suffix in (".py", ".pyi") and "features" not in path.parts]
    named = {
        path for path in core if re.search(r"\bfeatures\.(?!row\b)[a-z_]+( import|[.:\"])", path.read_text("utf-8"))
    }

    assert named == {ROOT / "__init__.py", ROOT / "datasets" / "checks.pyi"}
