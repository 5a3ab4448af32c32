"""Writes promptfoo*.json and promptfoo.jsonl, with a provider that calls no model: python make_promptfoo.py PROMPTFOO."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROVIDER = """
module.exports = class {
  constructor(options) { this.version = options.config.version; }
  id() { return `canned:${this.version}`; }
  async callApi(prompt) {
    const k = Number(prompt.match(/What is (\\d+)/)[1]);
    if (k === 7 && this.version === 'v2') throw new Error('the model server went away');
    const output = this.version === 'v1' && k <= 4 ? 'a thousand' : String(2 * k);
    return { output, tokenUsage: { total: 10, prompt: 9, completion: 1 }, cost: 0.0001 };
  }
};
"""
JUDGE = """
module.exports = class {
  id() { return 'judge'; }
  async callApi(prompt) {
    if (prompt.includes('6')) return { error: 'the judge went away' };
    return { output: JSON.stringify({ pass: true, score: 1, reason: 'fine' }) };
  }
};
"""


CACHING = """
module.exports = class {
  constructor(options) { this.version = options.config.version; this.seen = {}; }
  id() { return `caching:${this.version}`; }
  async callApi(prompt) {
    const k = Number(prompt.match(/What is (\\d+)/)[1]);
    const cached = Boolean(this.seen[k]);
    this.seen[k] = true;
    const output = this.version === 'v1' && k <= 1 ? 'a thousand' : String(2 * k);
    return { output, cached, finishReason: k === 2 ? 'length' : 'stop', tokenUsage: { total: 10, prompt: 9, completion: 1 } };
  }
};
"""


def cached() -> dict:
    """Two tests of one assertion each, with messages and settings, whose further repeats come from a cache."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is {{k}} + {{k}}?"}]
    return {
        "description": "cached sums",
        "prompts": [json.dumps(messages)],
        "providers": [
            {
                "id": "file://caching.js",
                "label": name,
                "config": {"version": name, "temperature": heat, "max_tokens": 8},
            }
            for name, heat in (("v2", 0), ("v1", 0.7))
        ],
        "tests": [{"vars": {"k": k}, "assert": [{"type": "equals", "value": str(2 * k)}]} for k in (1, 2)],
    }


def judged() -> dict:
    """Four tests with a judge, which fails on the third."""
    rubric = {"type": "llm-rubric", "value": "is a number", "metric": "rubric", "provider": "file://judge.js"}
    return {
        **config(),
        "providers": [{"id": "file://provider.js", "label": "v2", "config": {"version": "v2"}}],
        "tests": [{**test, "assert": [test["assert"][0], rubric]} for test in config()["tests"][:4]],
    }


def config() -> dict:
    exact = [{"type": "equals", "value": str(2 * k), "metric": "exact"} for k in range(1, 9)]
    brief = {"type": "javascript", "value": "output.length <= 2 ? 1 : 0.25", "metric": "brevity"}
    return {
        "description": "sums",
        "prompts": ["What is {{k}} + {{k}}?"],
        "providers": [
            {"id": "file://provider.js", "label": name, "config": {"version": name}} for name in ("v2", "v1")
        ],
        "tests": [{"description": f"sum-{k}", "vars": {"k": k}, "assert": [exact[k - 1], brief]} for k in range(1, 9)],
    }


def lean(document: dict) -> dict:
    """Without the stack of an error and other traces of the machine that it was written on."""
    options = document.get("runtimeOptions") or {}
    document["runtimeOptions"] = {
        name: options[name] for name in ("repeat",) if name in options and is_cached(document)
    }
    document["results"]["results"] = [lean_result(result) for result in document["results"]["results"]]
    return document


def is_cached(document: dict) -> bool:
    """Return whether the file is that of the cached repeats; the others show how repeats are read without their number."""
    return document["config"]["description"] == "cached sums"


def lean_result(output: dict) -> dict:
    return {**output, "error": re.sub(r"\n\s+at .*", "", output["error"])} if "error" in output else output


def evaluate(promptfoo: str, folder: Path, settings: dict, *options: str) -> dict:
    (folder / "provider.js").write_text(PROVIDER)
    (folder / "judge.js").write_text(JUDGE)
    (folder / "caching.js").write_text(CACHING)
    (folder / "promptfooconfig.json").write_text(json.dumps(settings))
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(folder)}
    command = [promptfoo, "eval", "-c", "promptfooconfig.json", "--no-cache", "-o", "out.json", *options]
    subprocess.run(command, cwd=folder, env={**os.environ, **quiet}, check=False, stdout=subprocess.DEVNULL)
    return lean(json.loads((folder / "out.json").read_text()))


def make_sums(promptfoo: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        document = evaluate(promptfoo, Path(name), config(), "--repeat", "2", "-o", "out.jsonl")
        (HERE / "promptfoo.json").write_text(json.dumps(document) + "\n")
        lines = [lean_result(json.loads(line)) for line in (Path(name) / "out.jsonl").read_text().splitlines()]
        (HERE / "promptfoo.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_judged(promptfoo: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        document = evaluate(promptfoo, Path(name), judged())
        (HERE / "promptfoo-judged.json").write_text(json.dumps(document) + "\n")


def make_cached(promptfoo: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        document = evaluate(promptfoo, Path(name), cached(), "--repeat", "3", "-j", "1")
        (HERE / "promptfoo-cached.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    make_sums(sys.argv[1])
    make_cached(sys.argv[1])
    make_judged(sys.argv[1])
