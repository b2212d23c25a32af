"""Options of the driver's JVM, and an archive of the classes that Spark loads at its start.

Most of Spark's start is class loading and compilation of code that runs once. This engine computes
in Python, so the JVM's quick compiler suits it better than the optimising one; and the classes can
be mapped from an archive (class data sharing, JEP 350) that an earlier run has written.

``python -m slackwater.engine.hosts.spark.class_archive`` creates it; ``make setup`` runs this.
Without it, or after a change of Java or pyspark, Spark starts normally.
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
"""Environment variable with options that replace these."""
QUICK: Final = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms64m",
    "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20",
)  # fmt: skip
"""A driver needs some 70 MB. The heap begins with that, not with 1/64 of the machine's memory; this
collector and these ratios let it grow only as needed."""
_QUIET: Final = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
_TRACE: Final = """\
{"kind": "sync", "source": "s", "ts": 0, "arrival": 1, "offset": 0, "delay": 0, "first_seq": 0}
{"source": "s", "seq": 0, "ts": 1, "arrival": 2}
"""


def java_options(environ: Mapping[str, str], home: Path) -> str:
    """Return options for the driver's JVM.

    Args:
        environ: has ``VARIABLE``, if it is set.
        home: home of Java.
    """
    if VARIABLE in environ:
        return environ[VARIABLE]
    archive = archive_of(home)
    usable = own_cache() is not None and archive.exists()
    shared = [f'"-XX:SharedArchiveFile={archive}"', _QUIET] if usable else []
    return " ".join([*QUICK, *shared])


def archive_of(home: Path) -> Path:
    """Return the path of the archive for that Java and this pyspark; it may not exist."""
    release = home / "release"
    facts = [pyspark.__version__, pyspark.__file__, str(home)]
    facts += [release.read_text(encoding="utf-8")] if release.exists() else []
    name = blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
    return cache_home() / "slackwater" / f"spark-classes-{name}.jsa"


def make_archive(home: Path) -> Path:
    """Run Spark once on two records and save the classes that it loaded (some 190 MB).

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
        # The JVM shares the pipe of standard output with Python, and writes the archive after
        # Python has ended: the pipe is closed when both have ended.
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
    """Create the archive if it does not exist."""
    home = java_home()
    archive = archive_of(home)
    if not archive.exists():
        make_archive(home)
    sys.stdout.write(f"classes of Spark: {archive}\n")


if __name__ == "__main__":
    main()
