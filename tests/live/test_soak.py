"""The soak: a minute of it, and that it sees what grows."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.soak.__main__ import Soak, keep
from bench.soak.plot import plot
from bench.soak.watched import Watched


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_memory_and_files_stay_as_they_are(tmp_path: Path) -> None:
    soak = Soak(tmp_path, agents=3, rate=6_000, seconds=60)
    soak.run()
    assert soak.events() == dict.fromkeys(soak.names, 120_000)
    assert soak.counted() == 360_000
    assert soak.pairs() > 100
    assert [each.name for each in soak.watched] == ["gateway", *soak.names, "engine"]
    assert all(len(each.at) > 30 for each in soak.watched)
    assert [told for each in soak.watched for told in each.grows()] == []
    keep(soak.watched, tmp_path / "kept", "a minute")
    assert (tmp_path / "kept" / "soak.csv").read_text().count("\n") > 150
    root = ET.parse(tmp_path / "kept" / "soak.svg").getroot()
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(soak.watched)


def looked(kb: list[int], files: list[int]) -> Watched:
    return Watched("p", 1, [float(i) for i in range(len(kb))], kb, files)


def test_what_grows_is_seen() -> None:
    flat = [100_000, 101_000] * 20
    assert looked(flat, [9] * 40).grows() == []
    leak = [100_000 + 1_000 * i for i in range(40)]
    assert looked(leak, [9] * 40).grows() == [
        "p: memory grows by 18.6 MB over the second half, 3515.6 MB/h"
    ]
    assert looked(leak, [9] * 40).verdict().endswith("+3515.6 MB/h, 9 -> 9 files: grows")
    peaks = [100_000 + 90_000 * (i % 9 == 0) for i in range(40)]
    assert looked(peaks, [9] * 40).grows() == []
    assert looked(peaks, [9] * 40).verdict().endswith("MB,    +0.0 MB/h, 9 -> 9 files: flat")
    assert looked(flat, list(range(40))).grows() == ["p: open files grow from 24 to 34"]
    warmed_up = [1_000 * min(i, 15) + 50_000 for i in range(40)]
    assert looked(warmed_up, [9] * 40).grows() == []


def test_a_plot_has_a_line_and_a_name_for_each(tmp_path: Path) -> None:
    many = [looked([1000 * n] * 700, [n] * 700) for n in (1, 1, 40)]
    many[0].name = "<&>"
    text = plot([*many, Watched("gone", 1)], "title <1>")
    root = ET.fromstring(text)
    names = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert names[0] == "title <1>: resident memory [MB]"
    assert sum(name.startswith("<&> ") for name in names) == 2
    assert "gone" not in text
    assert plot([], "nothing").startswith("<svg")


def test_a_process_is_looked_at() -> None:
    own = Watched("own", os.getpid())
    own.look(0.0)
    assert own.kb[0] > 10_000
    with Path("/dev/null").open() as _:
        own.look(1.0)
    assert own.files[1] == own.files[0] + 1
    gone = Watched("gone", 2**22 + 1)
    gone.look(0.0)
    assert gone.at == []
