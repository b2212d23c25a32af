"""``slackwater paper``: what there is, one table, one page, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from scenarios.papers.r19 import paper

Run = Callable[..., Any]


def test_without_a_name_every_paper_and_entry_is_listed(cli: Run) -> None:
    ran = cli("paper")
    assert ran.code == 0
    assert ran.out.startswith("r19: ")
    listed = [line.split()[0] for line in ran.out.splitlines() if line.startswith("  ")]
    assert listed == [f"r19/{name}" for name in paper().reproductions]
    assert {f"r19/table-5.{n}" for n in range(4, 14)} <= set(listed)
    assert {f"r19/figure-5.{n}" for n in range(6, 15)} <= set(listed)
    assert cli("paper", "r19").out == ran.out
    assert not ran.left


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["r20"], "no paper 'r20'; there are r19"),
        (["r20/table-1"], "no paper 'r20'; there are r19"),
        (["r19/table-9.9"], "r19 has no 'table-9.9'; there are table-5.2, table-5.4,"),
        (["r19/table-5.4", "--all"], "give --all, or one table or figure"),
        (["r19/table-5.4", "--scale", "0"], "--scale 0.0: must lie above 0"),
        (["r19/table-5.4", "--scale", "2"], "--scale 2.0: must lie above 0"),
    ],
)
def test_what_there_is_not_is_refused(cli: Run, arguments: list[str], said: str) -> None:
    ran = cli("paper", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert not ran.out
    assert not ran.left


def test_a_folder_with_other_files_is_refused_before_the_work(cli: Run, here: Any) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "notes.txt").write_text("keep")
    ran = cli("paper", "r19/table-5.2", "--scale", "0.002", "--out", "mine")
    assert ran.code == 2
    assert "notes.txt" in ran.err
    assert not ran.left


def test_a_table_shows_both_numbers_and_the_verdict(cli: Run) -> None:
    ran = cli("paper", "r19/table-5.13", "--scale", "0.01", "--quiet")
    assert ran.code == 0
    assert ran.out.startswith("4 of 4 claims of the paper hold here; 0 do not.\n")
    assert "not the paper's" in ran.out
    assert "Table 5.13: A pattern whose order the sync gets wrong" in ran.out
    assert "not detected: the events seem -5.9 ms apart" in ran.out
    last = next(line for line in ran.out.splitlines() if "50 ms " in line and "│" in line)
    assert last.count("not detected") == 2
    assert last.count("uncertain") == 2
    assert not ran.err
    assert not ran.left


def test_a_claim_that_fails_is_a_result(cli: Run) -> None:
    ran = cli("paper", "r19/table-5.2", "--scale", "0.002")
    assert ran.code == 0, "at this scale the counts cannot be the published ones"
    assert "\nfails  Three data sets with 62,473" in ran.out


def test_another_seed_gives_other_numbers_and_the_same_seed_the_same(cli: Run) -> None:
    arguments = ("paper", "r19/table-5.4", "--scale", "0.01", "--seed")
    first, again, other = (cli(*arguments, seed).out for seed in ("1", "1", "2"))
    assert first == again
    assert first.replace("Seed 1", "") != other.replace("Seed 2", "")


def test_all_is_one_page_that_needs_no_network(cli: Run, here: Any) -> None:
    ran = cli("paper", "r19", "--all", "--scale", "0.002", "--out", "page")
    assert ran.code == 0
    assert ran.out.endswith("page/paper.html\n")
    assert set(ran.left) == {"page", "page/paper.html", "page/paper.json"}
    found = json.loads((here / "page" / "paper.json").read_text(encoding="utf-8"))
    assert list(found["reproductions"]) == list(paper().reproductions)
    assert (found["seed"], found["scale"]) == (1, 0.002)
    page = (here / "page" / "paper.html").read_text(encoding="utf-8")
    shown = page.partition("<script")[0]
    assert "default-src 'none'" in shown
    assert "http://" not in shown.replace("http://www.w3.org", "")
    claims = [claim for each in found["reproductions"].values() for claim in each["claims"]]
    assert f"of {len(claims)} claims of the paper hold here" in shown
    assert len(claims) >= 30
    assert all("Ours: " in claim["detail"] and "The paper: " in claim["detail"] for claim in claims)
    for name in found["reproductions"]:
        assert f'<section id="{name.replace(".", "-")}">' in shown
    drawn = [name for name in found["reproductions"] if name.startswith("figure")]
    assert shown.count('<div class="plot"') >= len(drawn)
    failed = sum(not claim["holds"] for claim in claims)
    assert shown.count("✗ fails") == 2 * failed, "in the verdict, and in its section"
    again = cli("paper", "r19/table-5.13", "--scale", "0.002", "--out", "page")
    assert again.code == 0, "a page of ours may be made anew"
