"""Fetching official files, from a server on this machine."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_crucible import DatasetError
from pytest_crucible.datasets.release import CHUNK, OfficialFile

CONTENT = b'{"input": 1}\n' * (2 * CHUNK // 13)  # more than one chunk
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def archive(name: str) -> bytes:
    """A gzipped tar that has CONTENT under a name, and a folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        folder = tarfile.TarInfo("data")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        about = tarfile.TarInfo(name)
        about.size = len(CONTENT)
        tar.addfile(about, io.BytesIO(CONTENT))
    return packed.getvalue()


BODIES = {"/good": CONTENT, "/cut": CONTENT[:100], "/archive": archive("data/test.jsonl")}
MEMBERS = {"sums/test.jsonl": "data/test.jsonl", "sums/again.jsonl": "data/test.jsonl"}
OF_ARCHIVE = hashlib.sha256(BODIES["/archive"]).hexdigest()


class Files(BaseHTTPRequestHandler):
    """/good, /archive, /cut (less than announced), /broken (a chunked body that ends early), and nothing else."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path not in (*BODIES, "/broken"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.close_connection = True
        if self.path == "/broken":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\nff\r\n")
        else:
            body = BODIES[self.path]
            self.send_header("Content-Length", str(len(CONTENT if self.path == "/cut" else body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data directory, no proxy."""
    monkeypatch.delenv("CRUCIBLE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "pytest-crucible"


def fetch(url: str, *, name: str = "sums/test.jsonl", sha256: str = SHA256, **members) -> Path:
    return OfficialFile(name=name, url=url, sha256=sha256, **members).path()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_is_downloaded_once_and_completely(server, cache):
    path = fetch(f"{server}/good")

    assert path == cache / "sums" / "test.jsonl"
    assert path.read_bytes() == CONTENT
    assert files(cache) == ["test.jsonl"]
    assert fetch(f"{server}/missing") == path


@pytest.mark.parametrize(
    ("page", "sha256", "members", "message"),
    [
        ("good", "0" * 64, {}, f"{{url}} has checksum {SHA256[:12]}..., not 000000000000...: the file has changed"),
        ("missing", SHA256, {}, "(HTTP Error 404: Not Found): connect to the network, or set CRUCIBLE_DATA to a folder"),
        ("broken", SHA256, {}, "cannot be downloaded from {url} (IncompleteRead(5 bytes read)"),
        ("cut", SHA256, {}, "{url} has checksum "),
        ("archive", SHA256, {"member": "data/other.jsonl"}, "other.jsonl"),
        ("archive", SHA256, {"member": "data"}, "data in the archive is not a file): connect to the network"),
        ("good", SHA256, {"member": "data/test.jsonl"}, "cannot be downloaded from {url} (it is not a tar archive): connect"),
        ("archive", "0" * 64, {"member": "data/test.jsonl"}, f"data/test.jsonl of {{url}} has checksum {SHA256[:12]}..."),
        ("archive", "0" * 64, {"members": MEMBERS}, "{url} has checksum "),
        ("archive", OF_ARCHIVE, {"members": {"sums/test.jsonl": "data/none.jsonl"}}, "none.jsonl' not found"),
        ("archive", OF_ARCHIVE, {"members": {"sums/test.jsonl": "data"}}, "sums/test.jsonl is not on this machine and"),
    ],
    ids=range(11),  # the archive's hash has the time in it
)  # fmt: skip
def test_a_failed_download_leaves_nothing_and_the_error_names_the_reason(server, cache, page, sha256, members, message):
    with pytest.raises(DatasetError) as caught:
        fetch(f"{server}/{page}", sha256=sha256, **members)

    assert message.format(url=f"{server}/{page}") in str(caught.value)
    assert not files(cache)


def test_a_missing_server_is_an_error():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused

        with pytest.raises(DatasetError, match=r"cannot be downloaded from .*refused.*: connect to the network"):
            fetch(f"http://127.0.0.1:{bound.getsockname()[1]}/good")


def test_an_invalid_address_is_an_error():
    with pytest.raises(DatasetError, match=r"cannot be downloaded from nowhere \(unknown url type: 'nowhere'\)"):
        fetch("nowhere")


@pytest.mark.parametrize("members", [{}, {"members": MEMBERS}], ids=["file", "archive"])
@pytest.mark.parametrize("names", [["test.jsonl"], ["test.jsonl.gz"], ["test.jsonl", "test.jsonl.gz"]])
def test_a_data_directory_is_used_as_it_is_and_nothing_is_downloaded(tmp_path, monkeypatch, cache, names, members):
    (tmp_path / "sums").mkdir()
    for name in names:
        (tmp_path / "sums" / name).touch()
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))

    assert fetch("http://nowhere.invalid", **members) == tmp_path / "sums" / names[0]
    with pytest.raises(DatasetError) as caught:
        fetch("http://nowhere.invalid", name="sums/again.jsonl", **members)
    assert str(caught.value) == (
        f"CRUCIBLE_DATA is {str(tmp_path)!r}, which has no 'sums/again.jsonl': "
        "put the file there, or unset CRUCIBLE_DATA to download it"
    )
    assert not cache.exists()


def test_one_file_of_an_archive_is_kept(server, cache):
    path = fetch(f"{server}/archive", member="data/test.jsonl")

    assert path.read_bytes() == CONTENT
    assert files(cache) == ["test.jsonl"]


def test_one_download_unpacks_all_members_of_an_archive(server, cache):
    path = fetch(f"{server}/archive", sha256=OF_ARCHIVE, members=MEMBERS)
    other = fetch("http://nowhere.invalid", name="sums/again.jsonl", members=MEMBERS)

    assert path.read_bytes() == other.read_bytes() == CONTENT
    assert files(cache) == ["again.jsonl", "test.jsonl"]
