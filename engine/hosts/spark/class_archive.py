"""Options of the driver's JVM, and an archive of the classes that Spark loads when it starts.

Starting Spark is mostly loading classes and compiling what runs once. The work of this engine is
done in Python, so the JVM's quick compiler serves it better than its thorough one; and the classes
can be mapped from an archive (class data sharing, JEP 350) that one run has left.

``python -m slackwater.engine.hosts.spark.class_archive`` makes it; ``make setup`` does so. Without
it, or when Java or pyspark have changed since, Spark starts as ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import pyspark

from slackwater.engine.cache_home import cache_home, own_cache
from slackwater.engine.hosts.java import java_home

VARIABLE: Final = "SLACKWATER_JAVA_OPTIONS"
"""Environment: options to use instead of these."""
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms64m")
"""A driver has some 70 MB that it needs. The heap begins at that, not at a 64th of the machine's
memory, and this collector lets it grow no more than it must."""
_QUIET: Final = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
_TRACE: Final = """\
{"kind": "sync", "source": "s", "ts": 0, "arrival": 1, "offset": 0, "delay": 0, "first_seq": 0}
{"source": "s", "seq": 0, "ts": 1, "arrival": 2}
"""


def java_options(environ: Mapping[str, str], home: Path) -> str:
    """Of the driver's JVM.

    Args:
        environ: where ``VARIABLE`` is looked up.
        home: of Java.
    """
    if VARIABLE in environ:
        return environ[VARIABLE]
    archive = archive_of(home)
    usable = own_cache() is not None and archive.exists()
    shared = [f'"-XX:SharedArchiveFile={archive}"', _QUIET] if usable else []
    return " ".join([*QUICK, *shared])


def archive_of(home: Path) -> Path:
    """Where the archive of that Java and this pyspark is, or would be."""
    release = home / "release"
    facts = [pyspark.__version__, pyspark.__file__, str(home)]
    facts += [release.read_text(encoding="utf-8")] if release.exists() else []
    name = blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
    return cache_home() / "slackwater" / f"spark-classes-{name}.jsa"


def make_archive(home: Path) -> Path:
    """Runs Spark once on two records and keeps the classes it loaded (some 190 MB).

    Raises:
        subprocess.CalledProcessError: the run failed.
    """
    archive = archive_of(home)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="spark-classes-") as name:
        folder = Path(name)
        trace, made = folder / "trace.jsonl", folder / "classes.jsa"
        trace.write_text(_TRACE, encoding="utf-8")
        options = " ".join([*QUICK, f'"-XX:ArchiveClassesAtExit={made}"', _QUIET])
        # The JVM has the pipe of its standard output from Python, and writes the archive when
        # Python has gone: the pipe ends when both have.
        subprocess.run(  # noqa: S603 - this program
            [
                sys.executable, "-c", "from slackwater.engine.cli import main; main()", "order",
                "--order", "none", "--quiet", "--input", trace,
                "--out", folder / "ordered.jsonl", "--master", "local[2]",
            ],
            env=os.environ | {VARIABLE: options}, check=True, capture_output=True,
        )  # fmt: skip
        made.replace(archive)
    return archive


def main() -> None:
    """Makes the archive if there is none yet."""
    home = java_home()
    archive = archive_of(home)
    if not archive.exists():
        make_archive(home)
    sys.stdout.write(f"classes of Spark: {archive}\n")


if __name__ == "__main__":
    main()
