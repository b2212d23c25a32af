"""``slackwater compare`` from the outside: table, page, JSON, and what it refuses."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.apps.compare.page import NO_ARRIVALS
from slackwater.engine.apps.report.page.document import POLICY
from slackwater.engine.cli.compare_command import _WIDTH

MS = 10**6


def records(arrivals: bool = True) -> list[dict[str, Any]]:
    """Two sources, an event each 10 ms in turn; every tenth is 35 ms late, one of those is lost."""
    made = [
        {
            "source": "ab"[n % 2], "seq": n // 2, "ts": n * 10, "attrs": {"v": n},
            "arrival": n * 10 + (35 if n % 10 == 4 else 1),
        }
        for n in range(200)
        if n != 104
    ]  # fmt: skip
    made.sort(key=lambda record: record["arrival"])
    if not arrivals:
        for record in made:
            del record["arrival"]
    return made


TWO = ("--order", "none", "--order", "kslack:40ms", "--time-unit", "ms", "--clock", "exact")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│┃┡┩ \n").replace("┃", "│").split("│")]


def test_two_orders_in_a_table_under_the_verdict(cli: Any, trace: Any) -> None:
    ran = cli("compare", "--input", trace(*records()), *TWO)
    assert (ran.code, ran.err, ran.left) == (0, "", {})
    lines = ran.out.splitlines()
    assert lines[0] == "events: 199 of 2 sources in 1 site"
    assert lines[1] == "out of order on arrival: 19 (9.5 %)"
    assert lines[2] == "their lateness: p50 30 ms, p90 30 ms, p99 30 ms, max 30 ms"
    said = next(line for line in lines if line.startswith("Recommended:"))
    assert said.startswith(
        "Recommended: kslack:40ms: 100 % of the events in their place; 99 % held"
    )
    assert "Not complete enough:" in lines
    assert "none  90.4 % in place; p99 hold 0; mean 0 ms" in ran.out
    heading = next(place for place, line in enumerate(lines) if line.startswith("┃"))
    named = dict(zip(cells(lines[heading]), cells(lines[heading + 3]), strict=True))
    assert named["order"] == "kslack:40ms"
    assert (named["in place"], named["out of order left"], named["late"]) == ("100 %", "0", "0")
    assert (named["disorder removed"], named["missing"], named["dropped"]) == (
        "100 %",
        "\N{EN DASH}",
        "0",
    )
    assert (named["p50 [ms]"], named["p99 [ms]"]) == ("40", "50")
    assert max(map(len, lines)) <= _WIDTH


def test_numbers_tell_what_is_missing(cli: Any, trace: Any) -> None:
    ran = cli("compare", "--input", trace(*records()), "--order", "sequence", "--time-unit", "ms")
    assert "missing numbers: 1\n" in ran.out
    assert "duplicates: 0\n" in ran.out


def test_a_folder_gets_a_page_and_json(cli: Any, trace: Any) -> None:
    name = trace(*records())
    ran = cli("compare", "--input", name, *TWO, "--out", "made/here", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "made/here/compare.html"
    assert set(ran.left) == {
        "made", "made/here", "made/here/compare.html", "made/here/compare.json",
    }  # fmt: skip
    found = json.loads(ran.left["made/here/compare.json"])
    assert (found["format"], found["input"], found["verdict"]["suits"]) == (1, name, "kslack:40ms")
    assert found["settings"]["arrival_given"]
    assert [each["order"] for each in found["orders"]] == ["none", "kslack:40ms"]
    assert found["arrivals"]["lateness_ns"] == dict.fromkeys(("p50", "p90", "p99", "max"), 30 * MS)
    assert [each["order"] for each in found["sweep"]] == ["kslack:0ns", "kslack:30ms"]
    none = found["orders"][0]
    assert (none["arrived"], none["in_place"], none["disorder_after"]) == (199, 180, 19)
    assert none["missing"] is None
    page = ran.left["made/here/compare.html"].decode()
    assert POLICY in page
    assert page.count("<table") >= 5
    assert 'id="plot-trade-off"' in page
    assert "slack swept: p99" in page
    assert '<div class="value">kslack:<wbr>40ms</div>' in page
    assert '<div class="value">9.5 %</div>' in page
    assert "Again: <code>slackwater" in page
    assert "Done on 20" in page
    assert page.count('">kslack:<wbr>40ms</th>') == 2  # outcome and cost
    for line in page.split("<script")[0].splitlines():
        assert "http" not in line.replace("http-equiv", "")
    again = cli("compare", "--input", name, *TWO, "--out", "made/here", "--quiet")
    assert again.code == 0  # its own files are replaced

    def lasting(text: bytes | None) -> Any:
        content = json.loads(text or b"")
        for each in [*content["orders"], *content["sweep"]]:
            del each["seconds"], each["events_per_second"]
        return content

    assert lasting(again.left["made/here/compare.json"]) == lasting(
        ran.left["made/here/compare.json"]
    )


def test_a_sweep_that_was_asked_for_is_in_the_table(cli: Any, trace: Any) -> None:
    swept = ("--sweep", "kslack:10ms..50ms")
    ran = cli("compare", "--input", trace(*records()), *TWO, *swept)
    orders = [cells(line)[0] for line in ran.out.splitlines() if line.startswith("│")]
    assert orders[:3] == ["none", "kslack:40ms", "kslack:10ms"]
    assert (orders[-1], len(orders)) == ("kslack:50ms", 2 + 12)


def test_json_on_standard_output(cli: Any, trace: Any) -> None:
    ran = cli("compare", "--input", trace(*records()), *TWO, "--json", "--complete", "0.9")
    found = json.loads(ran.out)
    assert found["settings"]["complete"] == 0.9
    assert found["verdict"]["suits"] == "none"  # 90.4 % are in place already


def test_an_arrival_log_and_a_csv_give_the_same(cli: Any, trace: Any) -> None:
    name = trace(*records())
    assert cli("log", "import", name, "--out", "log", "--time-unit", "ms", "--quiet").code == 0
    rows = [f"{each['source']},{each['seq']},{each['ts']},{each['arrival']}" for each in records()]
    trace("device,seq,ts,arrival", *rows, name="t.csv")
    found = [
        cli("compare", "--input", given, *TWO, "--json", *more).out
        for given, more in ((name, ()), ("log", ()), ("t.csv", ("--map", "source=device")))
    ]
    reported = []
    for text in found:
        orders = json.loads(text)["orders"]
        reported.append([(each["in_place"], each["hold_ns"], each["arrived"]) for each in orders])
    assert reported[0] == reported[1] == reported[2]


def test_without_arrivals_holds_are_counted_in_lines(cli: Any, trace: Any) -> None:
    ran = cli("compare", "--input", trace(*records(arrivals=False)), *TWO)
    assert (ran.code, ran.err) == (0, NO_ARRIVALS + "\n")
    assert "hold mean [lines]" in ran.out
    assert "99 % held for at most 5 lines" in ran.out
    page = cli("compare", "--input", "t.jsonl", *TWO, "--out", "o").left["o/compare.html"]
    assert NO_ARRIVALS in unescape(page.decode())


def test_true_times_and_departures(cli: Any, trace: Any) -> None:
    """Source b's clock is 15 ms behind and nobody knows: in order by ref, not by the truth."""
    given = []
    for each in records():
        wrong = 15 if each["source"] == "b" else 0
        attrs = {"true": each["ts"] * MS, "left": each["ts"] * MS}
        given.append({**each, "ts": each["ts"] - wrong, "attrs": attrs})
    ran = cli("compare", "--input", trace(*given), *TWO, "--truth", "true", "--departed", "left",
              "--json")  # fmt: skip
    slack = json.loads(ran.out)["orders"][1]
    assert slack["completeness"] == 1
    assert slack["disorder_after"] > 50
    under_way = slack["latency_ns"]["mean"] - slack["hold_ns"]["mean"]
    assert under_way == pytest.approx((180 * 1 + 19 * 35) * MS / 199)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--order", "kslak:1s"), "order 'kslak:1s': unknown operator; use one of "),
        (("--order", "none", "--order", "none"), "--order none: is given twice"),
        (("--order", "kslack"), "kslack needs its slack"),
        (("--sweep", "kslack"), "--sweep kslack: write a range of slacks, as in kslack:10ms..10s"),
        (("--complete", "99.9"), "a share above 0 and at most 1, such as 0.999"),
        (("--complete", "nan"), "--complete nan: write a share"),
        (("--truth", "nope"), "no attribute 'nope'"),
        (("--out", "t.jsonl"), "t.jsonl: is a file; choose a folder for --out"),
        (("--out", "t.jsonl/o"), "t.jsonl is a file, not a folder; choose another --out"),
        (("--out", "."), ".: holds other files (empty.jsonl); choose another --out"),
        (("--input", "nothing.jsonl"), "nothing.jsonl"),
    ],
)
def test_bad_input_ends_with_2_and_leaves_nothing(
    cli: Any, trace: Any, arguments: tuple[str, ...], says: str
) -> None:
    trace({"kind": "tick", "arrival": 5}, name="empty.jsonl")
    ran = cli("compare", "--truth", "v", "--order", "none", "--input", "empty.jsonl")
    assert ran.code == 2
    assert "holds no events" in ran.err
    ran = cli("compare", "--input", trace(*records()), *arguments)
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert says in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("future", [True, False])
def test_where_no_order_is_complete_none_is_recommended(
    future: bool, cli: Any, trace: Any, here: Path
) -> None:
    """Of events in the future a remedy is recommended, and no order either."""
    moved = 10**6 if future else -1000
    rows = [
        {"ts": 10_000 + 100 * n + (moved if n % 6 == 5 else 0), "arrival": 10_005 + 100 * n}
        for n in range(30)
    ]
    command = ("compare", "--input", trace(*rows), "--time-unit", "ms", "--order", "none")
    ran = cli(*command, "--out", "c")
    said = next(line for line in ran.out.splitlines() if "None of these orders puts 99.9 %" in line)
    assert said.startswith("Recommended: 5 of 30 events" if future else "No order is recommended: ")
    assert '<p class="word">NO ORDER IS RECOMMENDED</p>' in (here / "c/compare.html").read_text()
    cli(*command, "--order", f"kslack:{10**6}ms", "--guard", "off", "--out", "d")
    assert '<p class="word">RECOMMENDED</p>' in (here / "d/compare.html").read_text()


def test_clocks_of_which_nothing_is_known_are_named(cli: Any, here: Path) -> None:
    """What a clock is off looks like lateness, for which an order would wait."""
    rows = [
        {"source": name, "seq": n, "ts": 1000 * n - off, "arrival": 1000 * n + 20}
        for n in range(9) for name, off in (("a", 0), ("b", 37_000))
    ]  # fmt: skip
    (here / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("compare", "--input", "two.jsonl", "--time-unit", "ms", "--order", "none")
    assert "nothing is known of the clocks of a, b" in cli(*words).err
    for said in ("exact", "b=37s±1ms"):
        assert "nothing is known" not in cli(*words, "--clock", said).err
    with pytest.warns(sw.SlackwaterWarning, match="nothing is known of the clocks of a, b"):
        sw.compare(here / "two.jsonl", "none")
