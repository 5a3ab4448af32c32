"""No key is shown or stored, wherever it was planted."""

from __future__ import annotations

import pytest

from pytest_crucible.cli import main

PLANTED = {
    "an environment variable": "planted-in-the-environment",
    "the URL of a proxy": "planted-in-a-proxy",
    "a query": "planted-in-a-query",
    "a header": "planted-in-a-header",
    "an adapter's table": "planted-in-a-table",
    "an adapter's parameters": "planted-in-parameters",
    "the command line": "planted-on-the-command-line",
    "the error of a prompt": "sk-planted-in-a-prompt-0123",
    "a traceback": "planted-in-a-traceback",
    "the reply of a server": "hf_plantedInAReply0123456",
}
CONFTEST = """
    import os
    from pytest_crucible import BackendError, Reply

    class Model:
        simulated = False
        identity = "a model"

        def __init__(self, adapter):
            self.options = adapter.options

        async def generate(self, request):
            if request.sample == "q01":
                raise BackendError(f"401 for {self.options['headers']} at {self.options['url']}")
            if request.sample == "q02":
                key = os.environ["TRACED_TOKEN"]
                raise RuntimeError("no answer with " + key)
            return Reply(text=f"echo {os.environ['MODEL_API_KEY']} hf_plantedInAReply0123456")

    def pytest_addoption(parser):
        parser.addoption("--model-password")

    def pytest_crucible_backend(adapter):
        return Model(adapter) if adapter.backend == "model" else None
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.0")
    async def test_sums(sample, sampler, score, pytestconfig):
        reply = await sampler.generate(sample.input)
        score(said=reply.text)
        assert sample.id != "q03", f"refused: {sample.input} sk-planted-in-a-prompt-0123 {pytestconfig.option.model_password}"
        return reply
"""
PARAMETER = PLANTED["an adapter's parameters"]
TABLE = {
    "backend": "model",
    "password": PLANTED["an adapter's table"],
    "url": f"https://host/v1?api_key={PLANTED['a query']}",
    "proxy": f"http://me:{PLANTED['the URL of a proxy']}@proxy:8080",
}


@pytest.fixture
def planted(suite, monkeypatch):
    """A suite with a key in each of ten places."""
    suite.pytester.makeconftest(CONFTEST)
    suite.test(TEST)
    suite.adapters({"m": TABLE})
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(f'headers = {{ X-Team = "{PLANTED["a header"]}" }}\n')
        file.write(f'parameters = {{ access_token = "{PARAMETER}" }}\n')
    monkeypatch.setenv("MODEL_API_KEY", PLANTED["an environment variable"])
    monkeypatch.setenv("TRACED_TOKEN", PLANTED["a traceback"])
    return suite


def test_no_key_is_anywhere(planted, monkeypatch, capsys):
    arguments = ("--crucible-adapter=m", f"--model-password={PLANTED['the command line']}", "-vv", "-rA")
    files = (
        "--crucible-report=report.md",
        "--crucible-report=report.csv",
        "--crucible-json=run.json",
        "--junitxml=junit.xml",
    )
    result = planted.run(*arguments, *files)
    monkeypatch.chdir(planted.path)
    capsys.readouterr()
    for what in ("observations", "replies", "events"):
        assert main(["export", "-o", f"{what}.csv", "--what", what]) == 0
    for command in (["show", "-vv"], ["show", "--json"], ["adapters"], ["doctor", "latest"], ["runs"]):
        main(command)
    printed = capsys.readouterr()

    assert "2 samples lost (error)" in result.stdout.str()  # it was asked, and it went wrong as it was to
    own = {"crucible.toml", "conftest.py", "test_sums.py"}
    written = {
        path.name: path.read_bytes()
        for path in planted.path.rglob("*")
        if path.is_file() and path.name not in own and path.suffix != ".pyc"
    }
    assert {"crucible.db", "report.md", "report.csv", "run.json", "junit.xml", "replies.csv"} <= set(written)
    texts = {
        **written,
        "the terminal": (result.stdout.str() + result.stderr.str()).encode(),
        "commands": (printed.out + printed.err).encode(),
    }
    rows = [(place, name) for place, key in PLANTED.items() for name, text in texts.items() if key.encode() in text]
    assert rows == []
    assert all(b"(key hidden)" in texts[name] for name in ("crucible.db", "the terminal", "replies.csv", "commands"))
