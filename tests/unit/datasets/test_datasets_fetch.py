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
from pytest_crucible.datasets.release import CHUNK, data_file, download, unpacked_file

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


def test_a_file_with_the_right_checksum_is_kept(server, tmp_path):
    target = tmp_path / "deep" / "down" / "sums.jsonl"

    download(f"{server}/good", target, sha256=SHA256)

    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_a_file_with_another_checksum_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(f"{server}/good", tmp_path / "new" / "sums.jsonl", sha256="0" * 64)

    assert str(caught.value) == (
        f"{server}/good has checksum {SHA256[:12]}..., not 000000000000...: the file has changed"
    )
    assert not list((tmp_path / "new").iterdir())


def test_a_file_that_is_there_stays_when_a_download_fails(server, tmp_path):
    target = tmp_path / "sums.jsonl"
    target.write_text("old")

    with pytest.raises(DatasetError):
        download(f"{server}/good", target, sha256="0" * 64)

    assert target.read_text() == "old"


@pytest.mark.parametrize(
    ("page", "reason"),
    [("missing", "HTTP Error 404: Not Found"), ("broken", "IncompleteRead(5 bytes read)")],
)
def test_a_download_that_fails_says_what_to_do(server, tmp_path, page, reason):
    with pytest.raises(DatasetError) as caught:
        download(f"{server}/{page}", tmp_path / "new" / "sums.jsonl", sha256=SHA256)

    assert str(caught.value) == (
        f"sums.jsonl is not on this machine and cannot be downloaded from {server}/{page} ({reason}): "
        "connect to the network, or set CRUCIBLE_DATA to a folder that contains it"
    )
    assert not list((tmp_path / "new").iterdir())


def test_a_truncated_download_is_an_error(server, tmp_path):
    with pytest.raises(DatasetError):
        download(f"{server}/cut", tmp_path / "sums.jsonl", sha256=SHA256)

    assert not list(tmp_path.iterdir())


def test_a_missing_server_is_an_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/good"

        with pytest.raises(DatasetError, match=r"cannot be downloaded from .*refused.*: connect to the network"):
            download(url, tmp_path / "sums.jsonl", sha256=SHA256)


def test_an_invalid_address_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match=r"cannot be downloaded from nowhere \(unknown url type: 'nowhere'\)"):
        download("nowhere", tmp_path / "sums.jsonl", sha256=SHA256)


def test_a_data_file_is_downloaded_once(server, cache):
    path = data_file("sums/test.jsonl", url=f"{server}/good", sha256=SHA256)

    assert path == cache / "sums" / "test.jsonl"
    assert data_file("sums/test.jsonl", url=f"{server}/missing", sha256=SHA256) == path


@pytest.mark.parametrize("name", ["test.jsonl", "test.jsonl.gz"])
def test_a_data_directory_is_used_as_it_is(tmp_path, monkeypatch, name):
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / name).touch()
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))

    assert data_file("sums/test.jsonl", url="http://nowhere.invalid", sha256=SHA256) == tmp_path / "sums" / name


def test_the_plain_file_comes_before_the_gzipped_one(tmp_path, monkeypatch):
    for name in ("test.jsonl", "test.jsonl.gz"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))

    assert data_file("test.jsonl", url="http://nowhere.invalid", sha256=SHA256) == tmp_path / "test.jsonl"


def test_a_file_that_the_data_directory_lacks_is_not_downloaded(server, tmp_path, monkeypatch, cache):
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))

    with pytest.raises(DatasetError) as caught:
        data_file("sums/test.jsonl", url=f"{server}/good", sha256=SHA256)

    assert str(caught.value) == (
        f"CRUCIBLE_DATA is {str(tmp_path)!r}, which has no 'sums/test.jsonl': "
        "put the file there, or unset CRUCIBLE_DATA to download it"
    )
    assert not cache.exists()


def test_one_file_of_an_archive_is_kept(server, cache):
    path = data_file("sums/test.jsonl", url=f"{server}/archive", sha256=SHA256, member="data/test.jsonl")

    assert path.read_bytes() == CONTENT
    assert [one.name for one in path.parent.iterdir()] == ["test.jsonl"]


@pytest.mark.parametrize(
    ("path", "member", "said"),
    [
        ("/archive", "data/other.jsonl", "other.jsonl"),
        ("/archive", "data", "is not a file"),
        ("/good", "data/test.jsonl", "not a tar archive"),
    ],
)
def test_an_archive_that_lacks_the_file_says_what_to_do(server, cache, path, member, said):
    with pytest.raises(DatasetError, match=rf"cannot be downloaded from .*{said}.*set CRUCIBLE_DATA"):
        data_file("sums/test.jsonl", url=f"{server}{path}", sha256=SHA256, member=member)


def test_a_file_of_an_archive_with_another_checksum_is_refused(server, cache):
    with pytest.raises(DatasetError, match=r"data/test.jsonl of .* has checksum"):
        data_file("sums/test.jsonl", url=f"{server}/archive", sha256="0" * 64, member="data/test.jsonl")


# -- many files of one archive -------------------------------------------------------------------------------------

MEMBERS = {"sums/test.jsonl": "data/test.jsonl", "sums/again.jsonl": "data/test.jsonl"}
OF_ARCHIVE = hashlib.sha256(BODIES["/archive"]).hexdigest()


def test_one_download_unpacks_all_members_of_an_archive(server, cache):
    path = unpacked_file("sums/test.jsonl", url=f"{server}/archive", sha256=OF_ARCHIVE, members=MEMBERS)

    assert path.read_bytes() == CONTENT
    other = unpacked_file("sums/again.jsonl", url="http://nowhere.invalid", sha256=OF_ARCHIVE, members=MEMBERS)
    assert other.read_bytes() == CONTENT
    assert sorted(one.name for one in path.parent.iterdir()) == ["again.jsonl", "test.jsonl"]


@pytest.mark.parametrize(
    ("sha256", "members", "complaint"),
    [
        ("0" * 64, MEMBERS, "has checksum .*, not 000000000000...: the file has changed"),
        (OF_ARCHIVE, {"sums/test.jsonl": "data/none.jsonl"}, "none.jsonl' not found"),
        (OF_ARCHIVE, {"sums/test.jsonl": "data"}, "data in the archive is not a file"),
    ],
    ids=["another", "without it", "a directory"],  # the archive's hash has the time in it
)
def test_a_wrong_archive_leaves_nothing(server, cache, sha256, members, complaint):
    with pytest.raises(DatasetError, match=complaint):
        unpacked_file("sums/test.jsonl", url=f"{server}/archive", sha256=sha256, members=members)
    assert not [one for one in cache.rglob("*") if one.is_file()]


def test_a_file_of_an_archive_is_looked_for_in_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "test.jsonl").write_bytes(CONTENT)

    found = unpacked_file("sums/test.jsonl", url="http://nowhere.invalid", sha256=OF_ARCHIVE, members=MEMBERS)
    assert found == tmp_path / "sums" / "test.jsonl"
    with pytest.raises(DatasetError, match=r"which has no 'sums/again.jsonl'"):
        unpacked_file("sums/again.jsonl", url="http://nowhere.invalid", sha256=OF_ARCHIVE, members=MEMBERS)
