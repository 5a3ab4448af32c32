"""The command lines of the installed tinker-cookbook's READMEs, run against the local server, as a table in Markdown.

    python -m benchmarks.cookbook                  # all of them, hours: READMEs are of long trainings
    python -m benchmarks.cookbook math_rl sdft     # those that contain one of these words
    python -m benchmarks.cookbook --seconds 120    # time of a line as it is written; 600 without

A line *passes* if it ends with status 0 as it is written; *passes with arguments* that make it short, or name a checkpoint that is
here; *needs more than a toy*, for a reason, with the line's own error; *fails*, with its error; or has *no verdict*, because it
still runs and no shorter arguments are known. A line that prints that it has no figures fails with status 0, too. Lines for a
person read INPUT; lines that serve pass when they answer. Without tinker-cookbook, or where no line passes, the status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_crucible.local_model.server.cookbook_names import find_cookbook, read_cookbook_names
from pytest_crucible.local_model.server.hub_cache import write_hub_cache
from pytest_crucible.local_model.server.process import LocalServer

# Arguments that make a recipe short, by its module. Those of the modules in SERVERS replace the line's own.
SHORTER = {
    "capture.proxy.serve": "--port {port} --base-model Qwen/Qwen3-8B --store-data-dir capture",
    "capture.store.daemon": "--data-dir store --port {port}",
    "chat_app.tinker_chat_cli": "model_path={checkpoint}",
    # A sweep reads the last step's line, which has `test/nll` only if it is evaluated.
    "chat_sl.sweep": "base.dataset=no_robots base.batch_size=32 base.eval_every=1 training_budget_examples=64 "
    "learning_rates=[1e-3] lora_ranks=[8]",
    "distillation.off_policy_reasoning": "max_steps=2 batch_size=16 max_length=1024 renderer_name=role_colon buffer_size=256",
    "distillation.on_policy_distillation": "max_steps=1 groups_per_batch=8 max_tokens=32 load_checkpoint_path=None",
    "distillation.on_policy_multi_teacher": "max_steps=1 deepmath_groups_per_batch=4 tulu3_groups_per_batch=4 max_tokens=32",
    "math_rl.train": "max_steps=1 groups_per_batch=8 group_size=4 max_tokens=64 eval_every=0",
    "multiplayer_rl.guess_number.train": "max_steps=1 group_size=2 batch_size=4 max_tokens=8 eval_every=0",
    "multiplayer_rl.text_arena.play": "checkpoint_path={checkpoint} num_games=2",
    "multiplayer_rl.text_arena.train": "max_steps=1 batch_size=4 max_tokens=8 eval_every=0",
    "multiplayer_rl.twenty_questions.train": "max_steps=1 group_size=2 batch_size=4 max_tokens=8 eval_every=0",
    "preference.dpo.train": "max_steps=2",
    # Its evaluation writes 256 replies of up to 1,024 tokens.
    "preference.rlhf.rlhf_pipeline": "short_name=x max_steps=1 batch_size=16 rl_max_tokens=16 eval_every=0",
    "preference.shorter.train": "max_steps=1 batch_size=4 group_size=4",
    "rl_numerics_check.train": "max_steps=1 group_size=2 groups_per_batch=2 max_tokens=32 task.page_chars=200 "
    "task.num_pages_min=1 task.num_pages_max=2",
    "rubric.train": "max_steps=1 groups_per_batch=4 train_group_size=2 max_tokens=16 eval_every=0",
    "rubric.prometheus_experimental": "max_steps=1 groups_per_batch=4 train_group_size=2 max_tokens=16 eval_every=0",
    # Evaluation of 0.6.1 fails by itself: its batches are tuples where the evaluator expects groups.
    "sdft.train": "dataset=sciknoweval toolalpaca_data_path=None max_steps=1 groups_per_batch=4 max_tokens=32 eval_every=0",
    "true_thinking_score.analyze": "n_problems=2 max_tokens=64",
}
# What other recipes need, which a small model of texts on one machine does not have, by the beginning of the module.
NEEDS = {
    "audio": "a model that hears",
    "scripts.inkling": "thinkingmachines/Inkling, whose tokenizer is its own",
    "vlm_classifier": "a model that sees",
    "code_rl": "a sandbox for code",
    "distillation.on_policy_distillation_harbor_multi_turn": "a sandbox for code (Modal)",
    "search_tool": "an index of documents (Chroma) and a model that embeds",
    "verifiers_rl": "an environment of the package verifiers",
    "forecasting": "the file of Prophet Arena, of which it checks the sum",
    "chat_sl.sweep.analyze": "runs on the server of Weights & Biases",
    "sdft.run_continual_learning": "a clone of Self-Distillation",
    "prompt_distillation.create_data": "a context for prompts of 2,395 to 2,867 tokens; here 2,048",
    "prompt_distillation.train": "the replies of create_data",
}
SERVERS = ("capture.proxy.serve", "capture.store.daemon")
# What a person types: a question, and moves, of which one is free.
INPUT = {
    "chat_app.tinker_chat_cli": "What is 2 + 3?\nquit\n",
    "multiplayer_rl.text_arena.play": "[4]\n[0]\n[8]\n[2]\n[6]\n" + "n\n" * 8,
}
# Prints a checkpoint for sampling of a model that nothing was taught.
SAVE_CHECKPOINT = """import tinker
training = tinker.ServiceClient().create_lora_training_client(base_model="Qwen/Qwen3.5-9B-Base", rank=8).result()
print(training.save_weights_for_sampler("toy").result().path)
"""
COMMAND = re.compile(r"(?:^|\s)python -m tinker_cookbook\.([\w.]+)(.*)")
# Words of a line that its reader replaces.
PLACEHOLDER = re.compile(r"<[\w-]+>|\$\w+|\[-+[\w-]+|\.\.\.|YOUR_\w+|env-id|\bDIR\b|tinker://[0-9a-f]{8}-[\w-]+")
# Output of recipes that end with status 0 without the figures that their line is for.
EMPTY = re.compile(r"^(Warning: metric \S+ not found in results|No completed runs found)", re.MULTILINE)
# Of a line as it is written, and of one with arguments that make it short.
LIMIT_S, SHORT_LIMIT_S = 600.0, 240.0
PASSES, SHORT, MORE = "passes", "passes with arguments", "needs more than a toy"
FAILS, UNDECIDED = "fails", "no verdict"
STILL_RUNS = "still runs after"


@dataclass(frozen=True, slots=True)
class Line:
    """A command line of a README: the module below tinker_cookbook, and its arguments."""

    readme: str
    module: str
    arguments: tuple[str, ...]

    @property
    def recipe(self) -> str:
        return self.module.removeprefix("recipes.")

    @property
    def is_complete(self) -> bool:
        return not PLACEHOLDER.search(" ".join(self.arguments))

    def shorten(self, arguments: str) -> Line:
        """Return the line with arguments replaced or added."""
        if self.recipe in SERVERS:
            return Line(self.readme, self.module, tuple(shlex.split(arguments)))
        by_name = {word.partition("=")[0]: word for word in (*self.arguments, *shlex.split(arguments))}
        return Line(self.readme, self.module, tuple(by_name.values()))


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: str
    details: str


def read_lines(folder: Path) -> Iterator[Line]:
    """Yield the command lines in blocks of code of all READMEs, each of them once."""
    lines = {}
    for readme in sorted(folder.rglob("README*.md")):
        for block in re.findall(r"```\w*\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL):
            for module, rest in COMMAND.findall(re.sub(r"\\\n", " ", block).replace("\n", "\n\n")):
                line = Line(str(readme.parent.relative_to(folder)), module, tuple(shlex.split(rest, comments=True)))
                lines[line.module, line.arguments] = line
    yield from lines.values()


class Checkout:
    """A copy of the package in a folder of its own, because recipes read and write files below `tinker_cookbook`."""

    def __init__(self, home: Path, seconds: float) -> None:
        self.home, self.seconds = home, seconds
        shutil.copytree(find_cookbook(), home / "tinker_cookbook", ignore=shutil.ignore_patterns("__pycache__"))
        self.names = read_cookbook_names()
        self.cache = write_hub_cache(home / "hub", self.names.models)

    def judge(self, line: Line) -> Outcome:
        """Run a line as it is written, then shorter, and return the first success or the reason of the failure."""
        reason = f"needs {', '.join(sorted(set(PLACEHOLDER.findall(' '.join(line.arguments)))))}"
        if line.is_complete:
            reason = self._run(line, self.seconds)
            if not reason:
                return Outcome(PASSES, "")
        if shorter := SHORTER.get(line.recipe):
            written, reason = reason, self._run(line.shorten(shorter), SHORT_LIMIT_S)
            if not reason:
                return Outcome(SHORT, f"`{shorter}`; as written: {written}")
        if needs := next((text for start, text in NEEDS.items() if line.recipe.startswith(start)), ""):
            return Outcome(MORE, f"{needs} ({reason})")
        return Outcome(UNDECIDED if reason.startswith(STILL_RUNS) else FAILS, reason)

    def _run(self, line: Line, seconds: float) -> str:
        """Return why a line failed, empty if it passed."""
        options = [part for name in self.names.models for part in ("--as", name)]
        options += ["--stand-in", "stable_reinforce=importance_sampling"]
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalServer.start(Path(folder) / "tinker", options=options) as server,
        ):
            environment = {**os.environ, **server.environment(), **self.cache, "TINKER_COOKBOOK_RUNS_DIR": folder}
            port = _find_port()
            line = _fill(line, {"{port}": str(port)}, environment)
            with _start(line, environment, self.home) as (process, log):
                status = _wait_for_answer(process, port, seconds) if line.recipe in SERVERS else _wait(process, seconds)
                output = _read(log)
        if os.environ.get("CRUCIBLE_VERBOSE"):
            print(f"== {line.recipe} {' '.join(line.arguments)}: {status}", output[-3000:], sep="\n", file=sys.stderr)
        if status is None:
            return f"{STILL_RUNS} {seconds:.0f} s"
        return _explain_failure(status, output.replace(folder, "RUNS"))


def _fill(line: Line, values: dict[str, str], environment: Mapping[str, str]) -> Line:
    """Return a line with the names in braces replaced; a checkpoint is made only for a line that reads one."""
    if any("{checkpoint}" in word for word in line.arguments):
        command = [sys.executable, "-c", SAVE_CHECKPOINT]
        values["{checkpoint}"] = subprocess.check_output(command, env=environment, text=True).split()[-1]
    words = line.arguments
    for name, value in values.items():
        words = tuple(word.replace(name, value) for word in words)
    return Line(line.readme, line.module, words)


def _find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def _start(
    line: Line, environment: Mapping[str, str], home: Path
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    command = [sys.executable, "-m", f"tinker_cookbook.{line.module}", *line.arguments]
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as typed:
        typed.write(INPUT.get(line.recipe, "").encode())
        typed.seek(0)
        process = subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=typed,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process, log
        finally:
            # Recipes start processes of their own, and the proxy a store in a session of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for file in home.glob("*/daemon.json"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(json.loads(file.read_text(encoding="utf-8"))["pid"], signal.SIGTERM)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll()


def _wait_for_answer(process: subprocess.Popen[bytes], port: int, seconds: float) -> int | None:
    """Return 0 when a line that serves answers, its status if it ends, and nothing after some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=seconds),
        ):
            return 0
        time.sleep(0.2)
    return process.poll()


def _read(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")


def _explain_failure(status: int, output: str) -> str:
    """Return why a line that has ended failed, empty if it passed."""
    if status:
        return _last_sentence(output)
    empty = EMPTY.search(output)
    return empty[0] if empty else ""


def _last_sentence(output: str) -> str:
    """Return the end of a traceback: its last line that begins with an exception, to the first semicolon."""
    lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    return (errors or lines)[-1].strip().partition("; ")[0][:160]


def show_table(lines: Sequence[Line], checkout: Checkout) -> int:
    """Print a row for each line when it is known, and how many of each verdict; return how many passed."""
    print(f"tinker-cookbook {checkout.names.version}\n")
    print("| README | line | | |", "|---|---|---|---|", sep="\n", flush=True)
    counts = dict.fromkeys((PASSES, SHORT, MORE, FAILS, UNDECIDED), 0)
    for line in lines:
        outcome = checkout.judge(line)
        counts[outcome.verdict] += 1
        text = " ".join((line.recipe, *line.arguments)).replace("|", "\\|")
        details = outcome.details.replace("|", "\\|")
        print(f"| `{line.readme}` | `{text}` | {outcome.verdict} | {details} |", flush=True)
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return counts[PASSES] + counts[SHORT]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cookbook")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=LIMIT_S)
    options = parser.parse_args()
    # `timeout` and `kill` would leave the recipe running, which has a session of its own.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = find_cookbook()
    lines = [
        line
        for line in read_lines(folder)
        if not options.words or any(word in f"{line.module} {' '.join(line.arguments)}" for word in options.words)
    ]
    with tempfile.TemporaryDirectory() as home:
        return 0 if show_table(lines, Checkout(Path(home), options.seconds)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
