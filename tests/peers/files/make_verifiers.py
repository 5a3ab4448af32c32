"""Writes verifiers/ARM/traces.jsonl with `vf-eval` of an own taskset, against a loopback server: python make_verifiers.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

HERE = Path(__file__).resolve().parent
WRONG = {"v1": 4, "v2": 1}
TASKSET = """
import verifiers.v1 as vf


class SumsData(vf.TaskData):
    answer: str


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 5)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SumsConfig(vf.TasksetConfig):
    pass


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        return [
            SumsTask(SumsData(prompt=f"What is {k} + {k}?", answer=str(2 * k)), self.config.task) for k in range(1, 9)
        ]


__all__ = ["SumsTaskset"]
"""


class Server(BaseHTTPRequestHandler):
    """Answers chat requests by the name of the model; the second request of one prompt fails for v2."""

    counts: ClassVar[dict[tuple[str, str], int]] = {}

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, prompt = body["model"], str(body["messages"][-1]["content"])
        k = int(re.findall(r"\d+", prompt)[0])
        self.counts[model, prompt] = self.counts.get((model, prompt), 0) + 1
        failed = model == "v2" and k == 5 and self.counts[model, prompt] > 1
        text = "a thousand" if k <= WRONG[model] else str(2 * k)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [choice],
            "usage": usage,
        }
        content, kind = json.dumps({"error": {"message": "refused"}} if failed else answer), "application/json"
        if body.get("stream") and not failed:
            delta = {"index": 0, "delta": choice["message"], "finish_reason": "stop"}
            chunk = {**answer, "object": "chat.completion.chunk", "choices": [delta]}
            content, kind = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n", "text/event-stream"
        self.send_response(400 if failed else 200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *arguments: object) -> None:
        pass


def make(arm: str, port: int, work: Path) -> None:
    (work / "sums_v1.py").write_text(TASKSET, encoding="utf-8")
    command = [
        *(
            str(Path(sys.executable).with_name("vf-eval")),
            "sums-v1",
            "-m",
            arm,
            "-r",
            "2",
            "-c",
            "16",
            "--no-push",
            "--no-rich",
        ),
        *("--client.base-url", f"http://127.0.0.1:{port}/v1", "--client.api-key-var", "KEY"),
        *("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"),
        *("--output-dir", str(work / arm), "--run.dir", "run"),
    ]
    environment = {
        **os.environ,
        "KEY": "none",
        "PYTHONPATH": str(work),
        "PRIME_DISABLE_VERSION_CHECK": "1",
        "HOME": str(work),
    }
    subprocess.run(command, cwd=work, env=environment, check=True, timeout=600)
    target = HERE / "verifiers" / arm
    for path in ("traces.jsonl", "configs/resolved/eval.json"):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        text = (work / arm / "run" / path).read_text(encoding="utf-8").replace(str(work), "/home/user")
        (target / path).write_text(text, encoding="utf-8")


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as folder:
    for name in WRONG:
        make(name, server.server_port, Path(folder))
server.shutdown()
