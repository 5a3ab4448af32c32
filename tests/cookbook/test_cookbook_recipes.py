"""The recipes of the table in README.md, unmodified, against the local server.

Skipped in an environment without tinker-cookbook.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_crucible.local_model.engine import Engine, make_stand_in
from pytest_crucible.local_model.server.recipe_data import make_sums

pytest.importorskip("tinker_cookbook")
pytestmark = pytest.mark.slow

PAGE = Path(__file__).with_name("README.md")
TABLE = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \| passes", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
RENDERERS = {
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
    "qwen3": "Qwen/Qwen3-8B",
    "deepseekv3": "deepseek-ai/DeepSeek-V3.1",
    "gpt_oss_no_sysprompt": "openai/gpt-oss-20b",
    "kimi_k2": "moonshotai/Kimi-K2-Thinking",
    "role_colon": "Qwen/Qwen3-8B",
}


@pytest.mark.parametrize(("recipe", "arguments"), TABLE)
def test_a_recipe_of_the_table_passes(environment, tmp_path, recipe, arguments):
    done = subprocess.run(
        [sys.executable, "-m", f"tinker_cookbook.recipes.{recipe}", *arguments.split()],
        env={**environment, "TINKER_COOKBOOK_RUNS_DIR": str(tmp_path)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.parametrize(("renderer", "model"), RENDERERS.items())
def test_conversations_that_a_renderer_writes_are_read_back(environment, renderer, model):
    code = f"""
import json, sys
from tinker_cookbook import renderers
from tinker_cookbook.tokenizer_utils import get_tokenizer
tokenizer = get_tokenizer({model!r})
renderer = renderers.get_renderer({renderer!r}, tokenizer)
rows = []
for messages in json.load(sys.stdin):
    example, _ = renderer.build_supervised_example(messages)
    prompt = renderer.build_generation_prompt(messages[:-1])
    whole, start = example.to_ints(), prompt.to_ints()
    answer, _ = renderer.parse_response(whole[len(start):])
    rows.append([whole, tokenizer.decode(whole), renderers.get_text_content(answer)])
print(json.dumps(rows))
"""
    conversations = [item.messages for item in make_sums(50, 7)]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        input=json.dumps(conversations),
        capture_output=True,
        text=True,
        check=True,
    )
    tokenizer = make_stand_in(Engine.load_packaged()).tokenizer
    rows = json.loads(done.stdout.splitlines()[-1])
    assert len(rows) == 50
    for (tokens, text, answer), messages in zip(rows, conversations, strict=True):
        # The server reads the tokens as the renderer's tokenizer writes them, but for the marks.
        assert tokenizer.decode(tokens) == re.sub(r"<[|｜][^>]*[|｜]>", "", text)
        assert answer.strip() == messages[-1]["content"]
