"""Inputs of an object store, by ``s3://``: against a server of that protocol (moto)."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest

import slackwater as sw
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input.input_log import files_of

pytestmark = pytest.mark.slow

ALL = "SELECT sum(v) AS s, count(*) AS n WINDOW TUMBLING 100"
FILES = {
    "days/a1.csv": "ts,v\n10,1\n",
    "days/a2.csv": "ts,v\n11,2\n",
    "days/b c/b.csv": "ts,v\n12,4\n",
    "days/readme.txt": "not one of them",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "moto_server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("moto_server does not listen")


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    port = _free_port()
    words = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port, server)
        yield port
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


@pytest.fixture(name="store")
def _store(port: int, monkeypatch: pytest.MonkeyPatch) -> pa_fs.S3FileSystem:
    """A bucket with ``FILES``; the environment says where it is, as users of S3 do."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    store, _ = pa_fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
    store.create_dir("bucket")
    for name, content in FILES.items():
        with store.open_output_stream(f"bucket/{name}") as sink:
            sink.write(content.encode())
    return store


def _put(store: pa_fs.S3FileSystem, folder: Path, name: str) -> None:
    here = pa_fs.LocalFileSystem()
    pa_fs.copy_files(str(folder), name, source_filesystem=here, destination_filesystem=store)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("inputs", "total"),
    [
        (["s3://bucket/days/a1.csv"], 1),
        (["s3://bucket/days"], 7),
        (["s3://bucket/days/"], 7),
        (["s3://bucket/days/*.csv"], 3),
        (["s3://bucket/days/**/*.csv"], 7),
        (["s3://bucket/days/b%20c/b.csv"], 4),
        (["s3://bucket/days/a1.csv", "s3://bucket/days/a2.csv"], 3),
        (["s3://bucket/days/a1.csv", "there.csv"], 17),
    ],
)
def test_files_folders_and_globs(here: Path, inputs: list[str], total: int) -> None:
    (here / "there.csv").write_text("ts,v\n10,16\n", encoding="utf-8")
    with sw.read(inputs) as events:
        found = list(sw.query(events, ALL, clock="exact"))
    assert [each["value"]["s"] for each in found] == [total]


def test_the_clocks_of_files_of_one_name(store: pa_fs.S3FileSystem) -> None:
    with store.open_output_stream("bucket/more/a1.csv") as sink:
        sink.write(b"ts,v\n10,8\n")
    with sw.read(["s3://bucket/days/a1.csv", "s3://bucket/more/a1.csv"]) as events:
        found = list(sw.query(events, ALL, clock=["days/a1.csv=1ns±0ns", "more/a1.csv=exact"]))
    assert [each["value"] for each in found] == [{"s": 9, "n": 2}]
    assert "certainty" not in found[0]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("s3://bucket/none.csv", "no file is named so"),
        ("s3://bucket/days/x*.csv", "no file is named so"),
        ("s3://another/a.csv", "no file is named so"),
        ("s3://bucket/days/a[12].csv", "cannot be read: Cannot parse URI"),
        ("http://127.0.0.1/a.csv", "cannot be read: Unrecognized filesystem type"),
    ],
)
def test_what_cannot_be_read(source: str, said: str) -> None:
    with pytest.raises(UserError, match=f".*{'.*'.join(map(_literal, (source, said)))}"):
        sw.read(source)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_how_far_copies_are(quiet: bool) -> None:
    words = ["-m", "slackwater", "query", ALL, "--input", "s3://bucket/days", "--clock", "exact"]
    try:
        screen, terminal = pty.openpty()
    except OSError as problem:
        pytest.skip(f"no terminals on this machine: {problem}")
    subprocess.run(
        [sys.executable, *words, *(["--quiet"] if quiet else [])],
        check=True, stdout=subprocess.DEVNULL, stderr=terminal,
    )  # fmt: skip
    os.write(terminal, b".")  # else reading would wait for what --quiet leaves out
    shown = os.read(screen, 65536).decode()
    for end in (screen, terminal):
        os.close(end)
    assert ("copying 0 of 4 files" in shown) is not quiet


@pytest.mark.usefixtures("store")
def test_copies_are_counted() -> None:
    counted: list[int] = []

    @contextmanager
    def copying(files: int) -> Iterator[Callable[[int], object]]:
        counted.append(-files)
        yield counted.append

    files_of(["s3://bucket/days/*.csv", "s3://bucket/days/b%20c/b.csv", __file__], copying)
    assert counted == [-2, 1, 1, -1, 1]  # folders below are not of the first one's


def _literal(text: str) -> str:
    return "".join(f"\\{sign}" if sign in ".*[]" else sign for sign in text)


def test_a_name_that_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store takes any name: a copy stays in its folder."""

    class Store:
        def get_file_info(self, name: str) -> pa_fs.FileInfo:
            return pa_fs.FileInfo(name, pa_fs.FileType.File)

    class Stores:
        def from_uri(self, uri: str) -> tuple[Store, str]:
            return Store(), uri.removeprefix("s3://")

    monkeypatch.setattr(pa_fs, "FileSystem", Stores())
    with pytest.raises(UserError, match=r"bucket/\.\./\.\./a\.csv would be copied elsewhere"):
        sw.read("s3://bucket/../../a.csv")


def test_nothing_listens(store: pa_fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.get_file_info("bucket/days/a1.csv").is_file
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{_free_port()}")
    with pytest.raises(
        UserError, match=r"s3://bucket/days: cannot be read: .*NETWORK_CONNECTION.*; "
    ):
        sw.read("s3://bucket/days")


def test_copies_are_removed(store: pa_fs.S3FileSystem, here: Path) -> None:
    assert store.get_file_info("bucket/days/a1.csv").is_file
    words = ["-m", "slackwater", "query", ALL, "--input", "s3://bucket/days", "--clock", "exact"]
    run = subprocess.run(
        [sys.executable, *words], env={**os.environ, "TMPDIR": str(here)}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert '"s": 7' in run.stdout
    assert list(here.glob("slackwater-*")) == []


@pytest.mark.spark
def test_a_log_that_grows(store: pa_fs.S3FileSystem, here: Path, cli: Callable[..., Any]) -> None:
    """Spark goes on with what the log has got since, whatever folder it was copied to."""
    (here / "1.csv").write_text("source,seq,ts,v\na,0,10,1\na,1,120,2\n", encoding="utf-8")
    assert cli("log", "import", "1.csv", "--out", "log").code == 0
    from slackwater.engine.log.arrival_log import LogReader, LogWriter  # noqa: PLC0415

    _put(store, here / "log", "bucket/log")
    words = ("query", ALL, "--clock", "exact", "--master", "local[2]", "--quiet")
    first = cli(*words, "--input", "s3://bucket/log", "--work", "work", "--out", "1.jsonl")
    assert first.code == 0, first.err
    (here / "2.csv").write_text("source,seq,ts,v\na,2,220,4\na,3,320,8\n", encoding="utf-8")
    assert cli("log", "import", "2.csv", "--out", "more").code == 0
    (frame,) = LogReader(here / "more")
    late = frame.batch.set_column(
        frame.batch.schema.get_field_index("arrival"), "arrival", pa.array([10, 11])
    )
    with LogWriter(here / "log") as writer:
        writer.arrival_given = False
        writer.append(type(frame)(frame.site, late))
    _put(store, here / "log", "bucket/log")
    again = cli(*words, "--input", "s3://bucket/log", "--work", "work", "--out", "2.jsonl")
    assert again.code == 0, again.err
    whole = cli(*words, "--input", "log", "--work", "other", "--out", "3.jsonl")
    assert whole.code == 0, whole.err
    assert (here / "2.jsonl").read_text() == (here / "3.jsonl").read_text()
    assert (here / "1.jsonl").read_text() != (here / "3.jsonl").read_text()
