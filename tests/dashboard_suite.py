"""A run store with everything that pages of the dashboard show: two runs, groups, slices, repeats, losses, calls and decisions."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

FILES = {
    "pytest.ini": "[pytest]\n",
    "crucible.toml": "\n".join(
        f'[adapters.{name}]\nbackend = "scripted"\nscript = "answers:{name}"\nlatency_s = 0.002\n'
        for name in ("v3", "v2", "v1", "dying")
    ),
    "answers.py": r"""
        import os
        import zlib

        def reply(request, salt, right):
            is_right = zlib.crc32(request.sample.encode() + salt) % 100 < right
            return "yes, of course" if is_right else "no, that is not so"

        def v3(request):
            return reply(request, b"3", 60)

        def v2(request):
            return reply(request, b"2", 90)

        def v1(request):
            return reply(request, b"1", 40)

        def dying(request):
            if request.sample == "s-30":
                import time
                time.sleep(1)  # the store's writer commits every half a second
                os._exit(9)
            return reply(request, b"2", 90)
    """,
    "test_words.py": """
        import pytest
        from pytest_crucible import metric, trace

        @metric(kind="binary")
        def agrees(reply, sample):
            return reply.text.startswith("yes")

        @metric(bounds=(0, 20))
        def length(reply, sample):
            return min(20.0, float(len(reply.text)))

        def rows():
            for k in range(60):
                yield {"id": f"s-{k}", "input": f"question {k}?", "group": f"passage {k // 2}",
                    "metadata": {"topic": ("sums", "words")[k % 2]}}

        @pytest.mark.crucible(dataset=rows, metrics=[agrees, length], epochs=2)
        @pytest.mark.quality_target("agrees >= 0.75", "mean(length) <= 15")
        @pytest.mark.ab_compare("agrees", "agrees by topic")
        async def test_words(sample, sampler):
            first = await sampler.generate(f"Think about {sample.input}")
            trace.decision("answer", ["refuse"], "it is a question", 0.75)
            if sample.id == "s-7":
                raise RuntimeError("the seventh is lost")
            return await sampler.generate(f"{sample.input} {first.text}")

        @pytest.mark.crucible(dataset=rows, metrics=[length])
        @pytest.mark.ab_compare("length", margin=0.5)
        async def test_lengths(sample, sampler):
            return await sampler.generate(sample.input)
    """,
}


def write_suite(folder: Path, **changes: str) -> None:
    """Write the files of the suite; `changes` are other texts, by the name of a file without its ending."""
    for name, text in FILES.items():
        (folder / name).write_text(textwrap.dedent(changes.get(Path(name).stem, text)), encoding="utf-8")


def run_suite(folder: Path, python: str, *arguments: str) -> Path:
    """Run pytest on the suite and return its run store."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    store = folder / ".crucible" / "crucible.db"
    assert store.exists(), done.stdout + done.stderr
    return store
