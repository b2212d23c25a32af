"""Runs repeat byte for byte, by the hash of their logs; a broken invariant is seen (canaries)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogReader
from slackwater.simulator.arrow_views import null_rows, plain_values
from slackwater.simulator.balance import Account
from slackwater.simulator.digest import FrameDigest
from slackwater.simulator.links import Link, Tally
from slackwater.simulator.run import FrameList, SimulationOutcome, simulate, simulate_to
from slackwater.simulator.scenario import read_scenario
from slackwater.simulator.seeds import Seeds

MS = 10**6
Rows = list[dict[str, Any]]
World = Callable[..., tuple[SimulationOutcome, Rows]]


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


@pytest.mark.slow
def test_the_hash_of_text_of_this_process_does_not_matter() -> None:
    code = (
        "import json, sys; from pathlib import Path;"
        "from slackwater.simulator.run import FrameList, simulate;"
        "from slackwater.simulator.scenario import read_scenario;"
        "print(simulate(read_scenario(json.loads(sys.argv[1])), FrameList(), Path('x')).digest)"
    )
    here = simulate(read_scenario(unruly_example()), FrameList(), Path("x")).digest
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    other = subprocess.run(
        [sys.executable, "-c", code, json.dumps(unruly_example())],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert other == f"{here}\n"


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


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UserError, match="is not an empty folder"):
        simulate_to(read_scenario(unruly_example()), tmp_path, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


NUMBERS = [3, None, -7, 2**40, None, 0, 1, 2, 3]
COLUMNS = {
    "int64": pa.array(NUMBERS, pa.int64()),
    "int8": pa.array([1, 2, 3, None, 5, 6, 7, 8, 9], pa.int8()),
    "float": pa.array([0.5, None, -0.0, 1e300, 2.0, 3.0, None, 4.0, 5.0]),
    "bool": pa.array([True, None, False, True, True, False, None, False, True]),
    "text": pa.array(["b", None, "a", "b", "c", "", "b", "a", None]).dictionary_encode(),
}


def digest(*columns: pa.Array) -> str:
    names = [f"column{number}" for number in range(len(columns))]
    found = FrameDigest()
    found.add(Frame("site", pa.RecordBatch.from_arrays(list(columns), names)))
    return found.hexdigest()


def test_it_is_what_it_always_was() -> None:
    assert (
        digest(*COLUMNS.values())
        == "51ee0a0b6ea4fb31fc045b2fe21d71e6c8201a8cc0c2240dbb0a7e025a0a71e2"
    )


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_slice_is_as_a_column_of_its_own(column: pa.Array) -> None:
    for low, high in ((0, 9), (1, 9), (3, 8), (8, 9), (4, 4)):
        cut = column.slice(low, high - low)
        own = pa.concat_arrays([cut])  # copied: begins at its own first byte
        assert digest(cut) == digest(own)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "text"])
def test_views_say_what_arrow_says(name: str) -> None:
    for cut in (COLUMNS[name], COLUMNS[name].slice(2, 5), COLUMNS[name].slice(9)):
        nulls = null_rows(cut)
        absent = np.zeros(len(cut), bool) if nulls is None else nulls
        assert absent.tolist() == [value is None for value in cut.to_pylist()]
        given = plain_values(cut).tolist()
        values = [None if null else value for null, value in zip(absent, given, strict=True)]
        assert values == cut.to_pylist()


def test_unused_words_and_their_order_do_not_count_but_a_null_does() -> None:
    def words(codes: list[int | None], names: list[str]) -> pa.Array:
        texts = pa.array(names, pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)

    assert digest(words([0, 1, 0], ["b", "a"])) == digest(words([2, 0, 2], ["a", "unused", "b"]))
    assert digest(words([0, None], ["b"])) != digest(words([0, 0], ["b"]))
    assert digest(words([None, None], ["b"])) == digest(words([None, None], []))


NAMES = ["clock/s0", "clock/s1", "link/s0/up/0/delay", "link/s0/down/0/delay"]


def test_the_order_of_making_and_the_others_do_not_matter() -> None:
    alone = {name: Seeds(5).generator(name).integers(2**62) for name in NAMES}
    seeds = Seeds(5)
    together = {name: seeds.generator(name).integers(2**62) for name in reversed(NAMES)}
    assert together == alone
    assert len(set(alone.values())) == len(NAMES)


def test_a_name_is_given_out_once() -> None:
    seeds = Seeds(5)
    seeds.generator("clock/s0")
    with pytest.raises(ContractViolation, match="'clock/s0' was handed out twice"):
        seeds.generator("clock/s0")


def test_a_negative_seed_is_the_users_error() -> None:
    with pytest.raises(UserError, match="seed: -1 is negative"):
        Seeds(-1)
