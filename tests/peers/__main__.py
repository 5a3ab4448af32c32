"""Checks what is read of the tools' files, or makes them again: python -m tests.peers [--renew] [TOOL ...].

Where another installed package is named `tests`, `python tests/peers` does the same.

`--renew` installs the newest version of each tool into an environment of its own, in a temporary folder, runs the tool's script
there, prints what is read otherwise than `tools.toml` says, and replaces the stored files. A tool that cannot be installed or
run is named, and its files stay.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

# Its own folder and the package's, whether it is run as a module or as a folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from peer_files import FILES, TOOLS, Tool, differences  # noqa: E402


def check(tool: Tool) -> Iterator[str]:
    """Yield a line for each stored file that is read otherwise than expected."""
    for name, expected in tool.files.items():
        for line in differences(FILES / name, expected):
            yield f"{tool.name} {name}: {line}"


def renew(tool: Tool) -> Iterator[str]:
    """Make a tool's files again. Yields the versions that wrote them, and what is read of them otherwise than expected."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        try:
            yield f"{tool.name}: {write_files(tool, folder)}"
        except subprocess.CalledProcessError as error:
            yield f"{tool.name} cannot be run here: {str(error.stderr or error).strip().splitlines()[-1][:200]}"
            return
        for name, expected in tool.files.items():
            if not (folder / "made" / name).exists():
                yield f"{tool.name} {name}: not written any more"
                continue
            for line in differences(folder / "made" / name, expected):
                yield f"{tool.name} {name}: {line}"
        shutil.copytree(folder / "made", FILES, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "*.sh"))


def write_files(tool: Tool, folder: Path) -> str:
    """Run the script of a tool in a new environment, with a copy of it in `made`, where it writes. Returns the versions."""
    python = str(folder / "env" / "bin" / "python")
    # Faster by minutes than pip, where it is there.
    if shutil.which("uv"):
        _run("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "env"))
        install = ("uv", "pip", "install", "--quiet", "--python", python)
    else:
        venv.create(folder / "env", with_pip=True)
        install = (python, "-m", "pip", "install", "--quiet")
    if tool.packages:
        _run(*install, *tool.packages)
    arguments = [str((FILES / argument).resolve()) for argument in tool.arguments]
    if tool.program:
        _run("npm", "install", "--silent", "--no-audit", "--prefix", str(folder), tool.program)
        arguments.append(str(folder / "node_modules" / ".bin" / tool.program))
    output = folder / "made"
    output.mkdir()
    script = shutil.copy(FILES / tool.script, output)
    program = "bash" if script.endswith(".sh") else python
    _run(program, script, *arguments, cwd=output)
    names = [re.split(r"[\[<>=]", package)[0] for package in tool.packages]
    code = "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    if tool.program:
        package = json.loads((folder / "node_modules" / tool.program / "package.json").read_text(encoding="utf-8"))
        return f"{tool.program} {package['version']}"
    return _run(python, "-c", code, *names).strip()


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=1800).stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("--renew", action="store_true", help="make the files again with the newest versions")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help="only these tools")
    options = parser.parse_args()
    lines: list[str] = []
    for tool in TOOLS.values():
        if not options.tools or tool.name in options.tools:
            # Without a script, files that were left by a tool once.
            for line in renew(tool) if options.renew and tool.script else check(tool):
                print(line, flush=True)
                lines.append(line)
    if not options.renew:
        print(
            f"{len(TOOLS)} tools, {sum(len(tool.files) for tool in TOOLS.values())} files, {len(lines)} read otherwise"
        )
    return int(bool(lines) and not options.renew)


if __name__ == "__main__":
    sys.exit(main())
