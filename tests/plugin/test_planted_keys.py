"""Made-up keys in every argument and every input file of every command: no byte that is written or printed has one."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_secret_places import cells

from pytest_crucible.cli import main
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.plugins import commands

VARIABLE, VALUE = "MODEL_API_KEY", "zebra quartz 7341"
"""A key without a form of its own: it is known because a variable with such a name holds it."""
PLANTED = re.compile(rb"sk-planted-[\w-]{8}|zebra quartz 7341")
VALID = {
    "runs list": "--suite=KEY --tag=KEY --adapter=KEY",
    "show": "-vv; latest --sample=KEY",
    "compare": "rows.jsonl rows.jsonl; rows.jsonl more.jsonl; KEY KEY",
    "show --by": "--by=KEY",
    "show --why-better": "--why-better --feature=KEY",
    "why": "-o w.md; KEY; latest KEY; latest --sample=KEY; latest --file=KEY; latest --checkpoint=KEY; latest --commit=KEY",
    "trace": "latest KEY -o t.md; latest KEY --arm=KEY; latest --where=KEY; latest --against=KEY; KEY KEY",
    "verify": "latest; latest --root=KEY; KEY",
    "report": "-o r.html -o r.md -o r.json -o r.csv",
    "view": "latest --export=pages; KEY; latest --export=pages --labels=KEY",
    "trend": "KEY; exact_match --suite=KEY --adapter=KEY",
    "plan": "--difference=0.1",
    "plan --samples": "--samples=KEY; --samples=10 --store=KEY",
    "merge": "KEY; runs.db",
    "nodes": "KEY; latest",
    "runs tag": "latest main --force --why=KEY; latest KEY",
    "models promote": "latest --to=staged --force --why=KEY",
    "models register": "v1 --model=KEY; v3 --model=claims; KEY --model=claims",
    "models rollback": "claims --why=KEY; KEY --why=KEY",
    "models retire": "claims@1 --why=KEY; KEY --why=KEY",
    "models list": "--log; KEY; --rank=KEY",
    "models gate freeze": "claims test_sums.py --why=KEY; claims KEY --why=KEY; KEY test_sums.py",
    "models gate show": "claims; KEY",
    "models watch": "KEY --model=claims --once",
    "models curve": "nowhere-KEY",
    "models schedule": "cron --at=02:30 -o s.cron -- pytest --model-key=KEY; cron --at=KEY -o s.cron -- pytest; "
    "github --at=02:30 -o g.yml -- env A=KEY pytest",
    "adapters": "",
    "data list": "rows.jsonl -o d.md; rows.jsonl --field=KEY",
    "data check": "rows.jsonl -o c.json; KEY",
    "data contamination": "rows.jsonl --against=more.jsonl -o c.md; KEY --against=KEY",
    "data drift": "rows.jsonl more.jsonl -o dd.md; rows.jsonl more.jsonl --field=KEY",
    "metrics": "",
    "guards attacks": "case_noise --text=KEY; KEY",
    "guards list": "",
    "guards try": "keys --text=KEY; KEY --text=KEY",
    "guards train": "rows.jsonl -o g.safetensors; KEY -o g.safetensors --field=KEY",
    "guards threshold": "latest --false-alarms=0.5 -o t.json; KEY --false-alarms=0.5 -o t.json",
    "calibrate": "latest --replicates=20",
    "calibrate --server": "--server=http://127.0.0.1:9/v1?key=KEY --model=KEY",
    "export": "-o e.csv --what=replies; -o e.jsonl --what=observations; -o e.csv KEY; "
    "-o sft.jsonl --what=sft --allow-gate-samples --on=exact_match",
    "import": "scores.csv --arm=KEY --target=KEY; scores.csv --column=sample=id; inspect.json; KEY",
    "gc": "--keep-runs=0",
    "doctor": "",
    "doctor --server": "--server=http://127.0.0.1:9/v1?key=KEY --model=KEY; --server=KEY",
    "init": "--data=KEY; --results=KEY; --server=http://127.0.0.1:9/v1?key=KEY --model=KEY --key-env=KEY",
    "tinker server": "--stand-in=KEY",
    **dict.fromkeys(
        ("tinker checkpoints", "tinker delete", "tinker download", "tinker publish"), "tinker://KEY/weights/1"
    ),
    "tinker prices": "KEY --from=KEY; KEY --from=http://127.0.0.1:9/KEY",
    "tinker runs": "",
    "tinker ttl": "tinker://KEY/weights/1 60",
    "tinker upload": "folder-KEY",
}
"""Arguments of each command, `;` between several calls. A new command has to be added."""


def all_commands() -> Iterator[tuple[str, click.Command]]:
    for name, reference in commands().items():
        yield name, load_object(reference)


def free_texts(command: click.Command) -> list[str]:
    """The options that take any text."""
    return [
        parameter.opts[-1]
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.type is click.STRING and not parameter.is_flag
    ]


@pytest.fixture
def planted(suite, monkeypatch, capsys):
    """A suite with keys in its dataset, replies, parameters and tables, after a run, in its own directory."""
    monkeypatch.setenv(VARIABLE, VALUE)
    monkeypatch.setenv("HOME", str(suite.path / "home"))
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    monkeypatch.chdir(suite.path)
    rows = [
        {
            "id": f"sk-planted-id-{k:020}",
            "input": f"line\nsk-planted-input-{k:020} and {VALUE}?",
            "expected": f"sk-planted-expected-{k:020}",
            "sk-planted-field-0123456789abcdef": f"\u00e4\u2028sk-planted-metadata-{k:020}",
            "key": f'token "{VALUE}"',
            "score": k % 2,
        }
        for k in range(20)
    ]
    suite.write_rows("rows.jsonl", rows)
    suite.write_rows("more.jsonl", [{**row, "id": f"other {k}"} for k, row in enumerate(rows)])
    replies = [
        {"sample_id": row["id"], "text": f"{row['expected']} {VALUE}" if k % 3 else row["expected"]}
        for k, row in enumerate(rows)
    ]
    for k, name in enumerate(("v1", "v2", "v3")):
        suite.write_rows(f"answers/{name}.jsonl", [{**replies[0], "text": f"{k}"}, *replies[1:]])
    lines = [f'"sk-planted-cell-{k:020}",sk-planted-id-{k:020},{k % 2}' for k in range(20)]
    (suite.path / "scores.csv").write_text("\n".join(["sk-planted-column-0123456789,id,score", *lines]) + "\n")
    (suite.path / "inspect.json").write_text(json.dumps({"version": 2, "eval": {"task": "sk-planted-task-0123456789"}}))
    suite.test(
        """
        import logging, pytest

        @pytest.mark.crucible(dataset="rows.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.10")
        @pytest.mark.parametrize("n", ["sk-planted-parameter-0123456789", "sk-planted-parameter-9876543210"])
        async def test_sums(sample, sampler, score, n):
            logging.warning("%s %s", sample.id, n)
            reply = await sampler.generate([{"role": "user", "content": f"{sample.input} {n}"}])
            score(said=reply.text)
            return reply
        """
    )
    with (suite.path / "crucible.toml").open("a") as file:
        file.write('[registry]\nclean_commit = false\n[guards.keys]\nkind = "secrets"\n')
    capsys.readouterr()
    return suite


def written_bytes(path: Path) -> dict[str, bytes]:
    """Return the files that the product has written, database cells unpacked; not the inputs and Python's own files."""
    own = {
        "rows.jsonl",
        "more.jsonl",
        "scores.csv",
        "inspect.json",
        "test_sums.py",
        "crucible.toml",
        "v1.jsonl",
        "v2.jsonl",
        "v3.jsonl",
    }
    files = [file for file in path.rglob("*") if file.is_file() and file.name not in own and file.suffix != ".pyc"]
    contents = {str(file.relative_to(path)): file.read_bytes() + str(file).encode() for file in files}
    contents |= {f"cells of {file.name}": cells(file) for file in files if file.suffix == ".db"}
    return contents


def leaks(texts: dict[str, bytes]) -> list[tuple[str, bytes]]:
    return [
        (name, text[max(0, match.start() - 40) : match.end() + 40])
        for name, text in texts.items()
        for match in PLANTED.finditer(text)
    ]


def command_words(name: str) -> list[str]:
    """The words of a command, without the option of a page."""
    return [word for word in name.split() if not word.startswith("--")]


def calls_of(name: str) -> list[list[str]]:
    return [
        [*command_words(name), *(word.replace("KEY", key) for word in shlex.split(arguments))]
        for arguments in VALID[name].split(";")
        for key in (f"sk-planted-{name.replace(' ', '-')}-0123456789", VALUE)
        if key != VALUE or "KEY" in arguments
    ]


def call(arguments: list[str], capsys) -> bytes:
    with contextlib.suppress(SystemExit):
        main(arguments)
    printed = capsys.readouterr()
    return (printed.out + printed.err).encode()


def test_every_command_is_tried():
    assert {name for name, _ in all_commands()} == set(VALID)


@pytest.mark.uses("contamination", "guards", "registry")
def test_no_key_is_stored_or_printed_by_any_command(planted, capsys):
    reports = [f"--crucible-report=run.{kind}" for kind in ("html", "json", "jsonl", "csv", "md", "tex")]
    result = planted.run(
        "--crucible-adapter=v2",
        "--compare=v1",
        "-v",
        "--durations=0",
        "--junitxml=run.xml",
        "--log-file=run.log",
        *reports,
    )
    printed = {"the session": (result.stdout.str() + result.stderr.str()).encode()}
    for arguments in ["models register v1 --model=claims", "models register v2 --model=claims"]:
        printed[arguments] = call(arguments.split(), capsys)
    planted.run("--crucible-adapter=claims@2", "--compare=claims@1")
    for name in [*VALID, "show", "models list", "runs list", "export"]:
        for number, arguments in enumerate(calls_of(name)):
            printed[f"{name} {number}"] = call(arguments, capsys)
            if "--json" not in arguments and not name.startswith("tinker"):
                printed[f"{name} {number} as JSON"] = call(
                    [*command_words(name), "--json", *arguments[len(command_words(name)) :]], capsys
                )

    texts = {**written_bytes(planted.path), **printed}
    assert {".crucible/crucible.db", "r.html", "r.json", "e.csv", "run.xml", "run.log"} <= set(texts)
    assert leaks(texts) == []
    assert b"(key hidden)" in texts["cells of crucible.db"]
    # Ids and names of two tests stay apart, and so everything that is joined by them.
    assert len(set(re.findall(rb"\(key hidden\) [0-9a-f]{12}", texts["cells of crucible.db"]))) == 20
    store = planted.path / ".crucible"
    modes = {f"{stat.S_IMODE(path.stat().st_mode):o}" for path in store.iterdir() if path.is_file()}
    assert (f"{stat.S_IMODE(store.stat().st_mode):o}", modes) == ("700", {"600"})


@pytest.mark.uses("guards", "registry")
@pytest.mark.slow
def test_no_key_in_any_option_is_stored_or_printed(planted, capsys):
    planted.run("--crucible-adapter=v2")
    printed = {}
    for name, command in all_commands():
        base = calls_of(name)[0]
        for option in free_texts(command):
            # A server accepts any key, and a file has the name that it was given.
            if option not in ("--key", "-o", "--output", "--store"):
                for key in (f"sk-planted-{option}-0123456789", VALUE):
                    words = [*command_words(name), f"{option}={key}", *base[len(command_words(name)) :]]
                    printed[f"{name} {option} {key}"] = call(words, capsys)

    assert len(printed) > 60
    assert leaks({**written_bytes(planted.path), **printed}) == []
