"""Options of the driver's JVM, and the archive of Spark's classes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.engine.hosts.java import java_home
from slackwater.engine.hosts.spark.class_archive import (
    QUICK,
    VARIABLE,
    archive_of,
    java_options,
    make_archive,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java, as far as the archive's name looks at it, and an empty cache."""
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "a cache"))
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n', encoding="utf-8")
    return home


def test_without_an_archive_none_is_named(home: Path) -> None:
    assert java_options({}, home) == " ".join(QUICK)


def test_an_archive_that_is_there_is_used(home: Path) -> None:
    archive = archive_of(home)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f'"-XX:SharedArchiveFile={archive}"' in java_options({}, home)  # quoted: a blank in it
    assert java_options({}, home).startswith(" ".join(QUICK))


def test_the_user_has_the_last_word(home: Path) -> None:
    assert java_options({VARIABLE: "-XX:+UseG1GC"}, home) == "-XX:+UseG1GC"
    assert java_options({VARIABLE: ""}, home) == ""


def test_another_java_has_another_archive(home: Path) -> None:
    before = archive_of(home)
    assert archive_of(home) == before
    (home / "release").write_text('JAVA_VERSION="17.0.16"\n', encoding="utf-8")
    assert archive_of(home) != before
    (home / "release").unlink()
    assert archive_of(home) != before


@pytest.mark.spark
@pytest.mark.slow  # two JVMs, 40 s
def test_spark_takes_its_classes_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    make_archive(java_home())
    assert [path.suffix for path in (tmp_path / "cache" / "slackwater").glob("spark-*")] == [".jsa"]
    loaded = tmp_path / "loaded.txt"
    options = f"{java_options({}, java_home())} -Xlog:class+load:file={loaded}"
    begin = (
        "from slackwater.engine.hosts.spark.host import spark_session;"
        "spark_session('local[1]').stop()"
    )
    subprocess.run([sys.executable, "-c", begin], check=True, env=os.environ | {VARIABLE: options})
    lines = [line for line in loaded.read_text().splitlines() if " org.apache.spark." in line]
    shared = [line for line in lines if line.endswith("shared objects file (top)")]
    assert len(shared) > len(lines) / 2 > 100
