"""``slackwater paper``: what there is, one table, one page, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.cli import paper_command
from slackwater.engine.cli.paper_command import known_papers, load
from slackwater.engine.scenario import Claim
from slackwater.paper import Finding, Paper, Reproduction, joined
from slackwater.scenarios.papers.r19.paper import paper
from slackwater.scenarios.papers.verdicts import judged, split_judged, unless

Run = Callable[..., Any]


def test_without_a_name_every_paper_and_entry_is_listed(cli: Run) -> None:
    ran = cli("paper")
    assert ran.code == 0
    listed = [line.split()[0] for line in ran.out.splitlines() if line.startswith("  ")]
    names = {name: list(load(name).reproductions) for name in known_papers()}
    assert listed == [f"{name}/{entry}" for name, entries in names.items() for entry in entries]
    assert {f"r19/table-5.{n}" for n in range(4, 14)} <= set(listed)
    assert {f"r19/figure-5.{n}" for n in range(6, 15)} <= set(listed)
    assert "".join(cli("paper", name).out for name in known_papers()) == ran.out
    assert not ran.left


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["r20"], f"no paper 'r20'; there are {', '.join(known_papers())}"),
        (["r20/table-1"], "no paper 'r20'; there are "),
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


def test_1_9_counts_of_whole_data_sets_are_not_judged_at_a_smaller_scale(cli: Run) -> None:
    ran = cli("paper", "r19/table-5.2", "--scale", "0.002")
    assert ran.code == 0
    assert ran.out.startswith("No claim of the paper is judged here.\n")
    assert "The claim is not judged at scale 0.002." in " ".join(ran.out.split())
    assert "\nfails" not in ran.out
    assert "\nnot judged  Three data sets with 62,473" in ran.out


def test_a_claim_that_few_runs_cannot_decide_is_not_judged(cli: Run, here: Any) -> None:
    ran = cli("paper", "r19/figure-5.14", "--scale", "0.002", "--quiet", "--out", "page")
    text = "The mean of three windows is nearer to the right average than one window."
    assert ran.code == 0
    assert ran.out.startswith("No claim of the paper is judged here.\n")
    assert f"\nnot judged  {text}\n" in ran.out
    assert "2 runs; fewer than 6 that agree may be chance." in ran.out
    page = (here / "page" / "paper.html").read_text(encoding="utf-8").partition("<script")[0]
    assert page.count("not judged") == page.count(text) == 1
    found = json.loads((here / "page" / "paper.json").read_text(encoding="utf-8"))
    assert list(found["reproductions"]["figure-5.14"]["not_judged"]) == [text]


def test_a_claim_that_fails_is_a_result(cli: Run) -> None:
    ran = cli("paper", "r19/table-5.5", "--scale", "0.002")
    assert ran.code == 0
    assert "\nfails  All three approaches put at least 99.98 %" in ran.out


@pytest.mark.slow
def test_another_seed_gives_other_numbers_and_the_same_seed_the_same(cli: Run) -> None:
    arguments = ("paper", "r19/table-5.4", "--scale", "0.01", "--seed")
    first, again, other = (cli(*arguments, seed).out for seed in ("1", "1", "2"))
    assert first == again
    assert first.replace("Seed 1", "") != other.replace("Seed 2", "")


@pytest.mark.slow
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
    assert all(claim["holds"] == ("Why: " not in claim["detail"]) for claim in claims)
    for name in found["reproductions"]:
        assert f'<section id="{name.replace(".", "-")}">' in shown
    drawn = [name for name in found["reproductions"] if name.startswith("figure")]
    assert shown.count('<div class="plot"') >= len(drawn)
    failed = sum(not claim["holds"] for claim in claims)
    assert shown.count("✗ fails") == 2 * failed, "in the verdict, and in its section"
    again = cli("paper", "r19/table-5.13", "--scale", "0.002", "--out", "page")
    assert again.code == 0, "a page of ours may be made again"


def test_a_figure_of_l09_is_a_function_of_the_seed(cli: Run) -> None:
    arguments = ("paper", "l09/fig-9", "--scale", "0.02", "--seed")
    first, again, other = (cli(*arguments, seed).out for seed in ("1", "1", "2"))
    assert first == again
    assert first.replace("Seed 1", "") != other.replace("Seed 2", "")
    assert "data sets at 0.02 of our own sizes (the paper prints none)" in first


# ---- a paper of parts -----------------------------------------------------------------------


def part(chapter: str, *, holds: bool) -> Paper:
    """A chapter with one figure, whose claim holds or does not."""
    claim = Claim("c", holds, rests="" if holds else "a rate")
    near = {"near": "noise"} if holds else {}
    figure = Reproduction(f"What {chapter} draws", lambda _: Finding((claim,), (), not_judged=near))
    return Paper(
        f"X: chapter {chapter}",
        f"X, chapter {chapter}",
        {"data": f"data of {chapter}"},
        {f"figure-{chapter}.1": figure},
        lambda found: " ".join(f"Made: {name}." for name in found),
    )


@pytest.fixture
def parted(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """``x``, of two chapters, is all the papers there are."""
    made = joined(
        "X: all of it", "X", {"ch1": part("1", holds=True), "ch2": part("2", holds=False)}
    )
    monkeypatch.setattr(paper_command, "known_papers", lambda: ["x"])
    monkeypatch.setattr(paper_command, "load", lambda _name: made)
    return made


def test_a_paper_is_listed_part_by_part(cli: Run, parted: Paper) -> None:
    chapters = [
        f"x/ch{n}: X: chapter {n} (X, chapter {n})\n  x/figure-{n}.1  What {n} draws\n"
        for n in (1, 2)
    ]
    assert cli("paper", "x").out == cli("paper").out == "x: X: all of it (X)\n" + "".join(chapters)
    assert cli("paper", "x/ch2").out == chapters[1]
    assert list(parted.reproductions) == ["figure-1.1", "figure-2.1"]


@pytest.mark.parametrize(
    ("name", "folder", "claims", "summary"),
    [
        ("x", "x", "1 of 2", "Made: figure-1.1. Made: figure-2.1.\n"),
        ("x/ch1", "x-ch1", "1 of 1", "Made: figure-1.1.\n"),
        ("x/ch2", "x-ch2", "0 of 1", "Made: figure-2.1.\n"),
    ],
)
@pytest.mark.usefixtures("parted")
def test_a_part_is_made_by_itself_and_the_whole_is_all_parts(
    cli: Run, name: str, folder: str, claims: str, summary: str
) -> None:
    ran = cli("paper", name, "--all")
    assert ran.code == 0
    assert ran.out.startswith(f"{claims} claims of the paper hold here;")
    assert f"\n{summary}" in ran.out
    assert ran.out.endswith(f"out/{folder}/paper.html\n")
    data = json.loads(ran.left[f"out/{folder}/paper.json"] or "")
    subjects = {"x": ["ch1: data", "ch2: data"]}.get(name, ["data"])
    assert list(data["setting"]) == subjects


@pytest.mark.usefixtures("parted")
def test_one_figure_of_a_part_is_named_without_it(cli: Run) -> None:
    ran = cli("paper", "x/figure-2.1")
    assert ran.code == 0
    assert ran.out.startswith("0 of 1 claims")
    assert "Made: figure-2.1." in ran.out
    for arguments in (["x/ch3"], ["x/ch3", "--all"]):
        refused = cli("paper", *arguments)
        assert refused.code == 2
        assert "x has no 'ch3'; there are ch1, ch2, figure-1.1, figure-2.1" in refused.err


@pytest.mark.usefixtures("parted")
def test_all_papers_are_one_page_of_claims_that_leads_to_their_pages(cli: Run, here: Any) -> None:
    ran = cli("paper", "--all", "--scale", "0.5")
    assert ran.code == 0
    assert ran.out.splitlines()[-2:] == [
        "1 of 2 claims of 1 papers hold here. 1 more are not judged.", "out/papers/papers.html",
    ]  # fmt: skip
    files = {"x", "x/paper.html", "x/paper.json", "papers.html", "papers.json"}
    assert set(ran.left) == {"out", "out/papers", *(f"out/papers/{name}" for name in files)}
    page = (here / "out" / "papers" / "papers.html").read_text("utf-8").partition("<script")[0]
    assert page.count('href="x/paper.html"') == 2
    assert page.count("does not hold") == page.count("does not hold *") == 1
    assert page.count(">not judged<") == page.count(">noise<") == 1
    of_paper = (here / "out" / "papers" / "x" / "paper.html").read_text("utf-8")
    choices = of_paper.partition('<section id="choices">')[2].partition("</section>")[0]
    assert choices.count("a rate") == 1, "which verdicts rest on a choice of ours"
    data = json.loads((here / "out" / "papers" / "papers.json").read_text("utf-8"))
    reported = [(each["of"], each["claim"]["holds"]) for each in data["papers"]["x"]["claims"]]
    assert reported == [("figure-1.1", True), ("figure-2.1", False)]
    left = data["papers"]["x"]["not_judged"]
    assert left == [{"of": "figure-1.1", "text": "near", "why": "noise"}]
    assert cli("paper", "--all", "--scale", "0.5").code == 0, "made again in its own folder"
    (here / "out" / "papers" / "mine.txt").write_text("keep")
    refused = cli("paper", "--all")
    assert refused.code == 2
    assert "mine.txt" in refused.err
    assert cli("paper", "--all", "--scale", "3").code == 2


def test_a_claim_that_a_run_cannot_decide_is_not_among_the_others() -> None:
    sure, near = Claim("a", holds=True), Claim("b", holds=False)
    assert split_judged([unless("", sure), unless("noise", near)]) == ((sure,), {"b": "noise"})


def test_a_judged_claim_tells_both_figures() -> None:
    claim = judged("more", False, "3", "5", why="less was sent")
    assert (claim.ours, claim.published) == ("3", "5")
    assert claim.detail == "Ours: 3.\nThe paper: 5.\nWhy: less was sent"
    with pytest.raises(ValueError, match="needs its reason: more"):
        judged("more", False, "3", "5", why="")
    rests = judged("more", True, "5", "3", why="", rests="the rate: the same with 2.")
    assert rests.detail.endswith("3.\nRests on our choice: the rate: the same with 2.")
    assert rests.rests == "the rate: the same with 2."
