"""`crucible guards attacks`: list the attacks that a marker can name, or try one on a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.features.robustness.built_in import FAMILIES, OBFUSCATION, make_attack
from pytest_crucible.features.robustness.edits import Attack, edit_share
from pytest_crucible.features.robustness.registry import Attacks
from pytest_crucible.features.robustness.twins import Draw
from pytest_crucible.records import NoTwin, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_from_here
from pytest_crucible.report.printable import headed_lines

HEADERS = ("name", "kind", "what it does")


@click.command("attacks")
@click.argument("name", required=False)
@click.option("--text", metavar="T", help="Attack this text, and print the result.")
@click.option(
    "--strength", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of what is eligible."
)
@click.option("--draws", type=click.IntRange(1), default=1, show_default=True, help="How many results.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the edits.")
@json_option
def try_attack(name: str | None, text: str | None, strength: float, draws: int, seed: int, as_json: bool) -> None:
    """List the attacks of the package and of crucible.toml; those of a conftest.py are known only to its tests.

    With NAME and --text, print the attacked text.
    """
    import_from_here()
    attacks = Attacks(read_table(Path(), "attacks"), root=Path())
    if name is None:
        if text is not None:
            raise SpecError("--text needs the NAME of an attack: crucible guards attacks homoglyph --text T")
        _list([attacks.get(attack_name) for attack_name in attacks.names], as_json=as_json)
        return
    attack = attacks.get(name)
    if text is None:
        _list([attack], as_json=as_json)
        return
    if attack.needs_model:
        raise SpecError(f"{name} is written by a model, in a test run: it cannot be tried here")
    results = [_try(attack, text, strength, seed, number) for number in range(draws)]
    lines = [result["text"] if "text" in result else f"does not apply: {result['reason']}" for result in results]
    print_result(lines, results, as_json=as_json)


def _list(attacks: list[Attack], *, as_json: bool) -> None:
    rows = [(attack.name, attack.kind, attack.summary) for attack in attacks]
    documents = [
        {
            "name": attack.name,
            "kind": attack.kind,
            "says": attack.summary,
            "version": attack.version,
            "has_strength": attack.has_strength,
            "asks_for": attack.asks_for,
        }
        for attack in attacks
    ]
    print_result(headed_lines(HEADERS, rows), documents, as_json=as_json)


def _try(attack: Attack, text: str, strength: float, seed: int, number: int) -> dict[str, Any]:
    draw = Draw(attack=attack, strength=strength, number=number, seed=seed)
    perturbed = draw.perturb(text, Sample(id="text", input=text))
    if isinstance(perturbed, NoTwin):
        return {"reason": perturbed.reason}
    share = edit_share(text, perturbed)
    return {"text": perturbed.text, "edits": [list(edit) for edit in perturbed.edits], "edit_share": share}


def obfuscate(text: str) -> Iterator[tuple[str, str]]:
    """Yield the obfuscations that apply to a text, each with the whole text written so."""
    for name in FAMILIES[OBFUSCATION]:
        draw = Draw(attack=make_attack(name), strength=1.0, number=0, seed=0)
        perturbed = draw.perturb(text, Sample(id="text", input=text))
        if not isinstance(perturbed, NoTwin):
            yield name, perturbed.text
