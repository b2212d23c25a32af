"""Runs repeat byte for byte, and a broken invariant is seen (canaries)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from engine.errors import ContractViolation, UserError
from engine.log.arrival_log import LogReader
from engine.stream.frame import Frame
from simulator.balance import Account
from simulator.digest import FrameDigest
from simulator.links import Link, Tally
from simulator.run import Simulated, simulate_to
from simulator.scenario import read_scenario

MS = 10**6
Rows = list[dict[str, Any]]
World = Callable[..., tuple[Simulated, Rows]]


def source(name: str = "s0", **given_: Any) -> dict[str, Any]:
    workload = {"model": "periodic", "period": "10 ms"}
    return {"name": name, "workload": workload, "poll_phase": 0, **given_}


def of_kind(rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] == 0]


# --- canaries: a broken invariant must be seen


def test_canary_a_link_that_swallows_a_message_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Link.transmit

    def swallowing(self: Link, now_ns: int, size: int, events: int, may_fail: bool = True) -> Any:
        arrivals = honest(self, now_ns, size, events, may_fail)
        return arrivals if events != 2 or now_ns % (100 * MS) else ()

    world(source(resend=False))
    monkeypatch.setattr(Link, "transmit", swallowing)
    with pytest.raises(
        ContractViolation, match=r"s0: left = delivered \+ closed \+ under way: 100 aga"
    ):
        world(source(resend=False))


@pytest.mark.parametrize(
    "field", ["generated", "accepted", "forgotten", "delivered", "closed", "known", "logged"]
)
def test_canary_every_number_of_an_account_is_part_of_a_sum(field: str) -> None:
    account = Account(generated=5, accepted=5, delivered=5, logged=5)
    account.up.entered, account.up.left = Tally(1, 5), Tally(1, 5)
    assert account.problems() == []
    setattr(account, field, getattr(account, field) + 1)
    assert account.problems()


def test_canary_one_changed_number_changes_the_hash() -> None:
    def digest(change: int) -> str:
        found = FrameDigest()
        columns = {
            "source": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), ["s0"]),
            "seq": pa.array([0, None], pa.int64()),
            "ts": pa.array([5, 6 + change]),
            "arrival": pa.array([7, 8]),
        }
        found.add(Frame("main", pa.record_batch(columns)))
        return found.hexdigest()

    assert digest(0) == digest(0)
    assert digest(0) != digest(1)


def test_the_hash_reads_strings_not_their_codes() -> None:
    def digest(codes: list[int | None], names: list[str]) -> str:
        found = FrameDigest()
        texts = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names)
        found.add(Frame("main", pa.record_batch({"type": texts})))
        return found.hexdigest()

    told = digest([0, 1, None, 0], ["A", "B"])
    assert digest([2, 1, None, 2], ["unused", "B", "A"]) == told
    assert digest([1, 0, None, 1], ["A", "B"]) != told
    assert digest([0, 1, 0, 0], ["A", "B"]) != told


# --- the same run twice


def unruly_example() -> dict[str, Any]:
    return {
        "name": "same", "seed": 5, "duration": "2 s",
        "sources": [
            source(
                f"s{n}", poll_phase=None, connections=2, resend=False,
                clock={"offset": f"{n} ms", "wander_ppb": 50},
                up={"delay": {"model": "lognormal", "median": "20 ms", "sigma": 0.5}, "loss": 0.05,
                    "duplicate": 0.05, "correlation": 0.5},
                workload={"model": "poisson", "mean": "5 ms"},
            )
            for n in range(3)
        ],
    }  # fmt: skip


def test_the_same_seed_gives_the_same_files_and_another_one_others(tmp_path: Path) -> None:
    def files(folder: str, seed: int) -> dict[str, bytes]:
        scenario = read_scenario({**unruly_example(), "seed": seed})
        simulate_to(scenario, tmp_path / folder, tmp_path)
        found = sorted((tmp_path / folder).rglob("*.*"))
        return {str(each.relative_to(tmp_path / folder)): each.read_bytes() for each in found}

    first = files("a", 5)
    assert {"manifest.json", "truth/events.parquet", "truth/clocks.parquet"} < set(first)
    assert files("b", 5) == first
    assert files("c", 6)["manifest.json"] != first["manifest.json"]


def test_the_log_on_disk_is_the_log_of_the_manifest(tmp_path: Path) -> None:
    done = simulate_to(read_scenario(unruly_example()), tmp_path / "out", tmp_path)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest == done.manifest
    rows = sum(frame.rows for frame in LogReader(tmp_path / "out" / "log"))
    assert rows == sum(manifest["rows"].values())
    assert manifest["rows"]["event"] == manifest["events"]["logged"]
    truth = pq.read_table(tmp_path / "out" / "truth" / "events.parquet")
    assert truth.num_rows == manifest["events"]["generated"]


def test_the_hash_of_text_of_this_process_does_not_matter() -> None:
    code = (
        "import json, sys; from pathlib import Path; from simulator.run import FrameList, simulate;"
        "from simulator.scenario import read_scenario;"
        "print(simulate(read_scenario(json.loads(sys.argv[1])), FrameList(), Path('x')).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, json.dumps(unruly_example())],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "random")
    }
    assert len(digests) == 1


def test_a_source_more_changes_nothing_of_the_others(world: World) -> None:
    example = unruly_example()
    three, rows = world(*example["sources"], duration="2 s")
    first, second, third = example["sources"]
    # At a site of its own: acks go out with the site's frames, which all its sources share.
    more = {**third, "name": "between", "site": "other"}
    four, again = world(more, third, second, first, duration="2 s")

    def own(found: Rows, name: str) -> list[Any]:
        return [
            (row["seq"], row["ts"], row["arrival"])
            for row in of_kind(found)
            if row["source"] == name
        ]

    for name in ("s0", "s1", "s2"):
        assert own(again, name) == own(rows, name)
        sums = [done.manifest["events_by_source"][name] for done in (three, four)]
        assert sums[0] == sums[1]
    assert own(again, "between") != own(rows, "s2")
    assert four.digest != three.digest


def test_a_source_more_at_the_same_site_changes_no_clock_and_no_event(world: World) -> None:
    example = unruly_example()
    three, _ = world(*example["sources"], duration="2 s")
    more = {**example["sources"][2], "name": "between"}
    four, _ = world(more, *reversed(example["sources"]), duration="2 s")

    def told(table: pa.Table, name: str, columns: list[str]) -> Rows:
        return table.filter(pc.equal(table["source"], name)).select(columns).to_pylist()

    for name in ("s0", "s1", "s2"):
        assert told(four.events, name, ["true_ts", "ts"]) == told(
            three.events, name, ["true_ts", "ts"]
        )
        assert told(four.clocks, name, ["source_ns"]) == told(three.clocks, name, ["source_ns"])


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UserError, match="is not an empty folder"):
        simulate_to(read_scenario(unruly_example()), tmp_path, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]
