"""Whatever is wrong in a scenario file is told with its line, and never by a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from scenarios.from_file import TEMPLATE, FromFile

LINES = TEMPLATE.read_text("utf-8").splitlines()
SETTING = re.compile(r"(?P<off># )?(?P<key>[\w.]+) = ")
SETTINGS = [number for number, line in enumerate(LINES) if SETTING.match(line)]
WRONG = (
    "-1", "0", "2.5", "true", "nan", "-inf", "1e400", "9223372036854775808", '""', '"x"',
    '"5 parsec"', '"-5 s"', '"99999999999 d"', '"5 s"', '"50 %"', "[]", "{}", "[[1]]", '[1, "a"]',
    '["a", "a"]', "[{}]", '{ model = "x" }', "{ model = [] }", "{ A = nan }", "07:32:00",
    '{ model = "uniform", low = "5 s", high = "1 s" }', '[{ at = "5 s", by = 1 }]',
)  # fmt: skip
SIGNS = ["", '"', "=", "[", "]", "{", "}", "#", ".", "-", "9", "é"]
NO_LINE = ("not TOML", "is missing", "no sources")
"""Mistakes that stand nowhere; a parser of TOML names its own lines."""


@st.composite
def damaged(draw: st.DrawFn) -> list[str]:
    """The template with one or two things wrong, or not so wrong."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 2))):
        how = draw(st.sampled_from(["value", "value", "key", "sign", "gone", "twice"]))
        number = draw(st.sampled_from(SETTINGS if how in ("value", "key") else range(len(LINES))))
        line = lines[number]
        found = SETTING.match(line)
        if how == "value" and found:
            lines[number] = f"{found['key']} = {draw(st.sampled_from(WRONG))}"
        elif how == "key" and found:
            more = draw(st.sampled_from(["x", ".y", "_ns"]))
            lines[number] = line.removeprefix("# ").replace(found["key"], found["key"] + more, 1)
        elif how == "sign" and line:
            at = draw(st.integers(0, len(line) - 1))
            lines[number] = line[:at] + draw(st.sampled_from(SIGNS)) + line[at + 1 :]
        elif how == "gone":
            lines[number] = ""
        else:
            lines[number] = f"{line}\n{draw(st.sampled_from(LINES))}"
    return lines


@given(damaged())
@settings(deadline=None)
def test_damage_is_told_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_text("\n".join(lines), "utf-8")
    try:
        FromFile(path)
    except UserError as error:
        told = str(error)
        assert told.startswith(f"{path}:"), told
        assert "\x00" not in told
        if not any(words in told for words in NO_LINE):
            line = told.removeprefix(f"{path}:").partition(":")[0]
            assert line.isdigit(), told
            assert 1 <= int(line) <= len("\n".join(lines).splitlines())


WHERE = [
    ("count = 3 ", "count = 0 ", "must lie in 1..10000"),
    ("[[sources]]", "[[sorces]]", 'did you mean "sources"?'),
    ("skew_ppm_spread =", "skew_pmm_spread =", 'did you mean "skew_ppm_spread"?'),
    ("[[machines]]", "[machines]", "write [[machines]]"),
    ('period = "500 ms"', 'period = "500"', "give a unit, as in 500 ms"),
    ('period = "500 ms"', "period = 500", 'give a unit, as in "500 ms"'),
    ('delay = "5 ms" ', "delay = 5 ", 'delay: 5: give a unit, as in "5 ms"'),
    ('duration = "2 min"', "duration = 120", "duration: 120: give a unit"),
    ("loss = 0.02", "loss = 1.5", "loss"),
    ('delay = "5 ms" ', 'delay = "5 sm" ', "unknown time unit 'sm'"),
    ("link.delay = ", "link.dealy = ", "link.dealy: unknown setting"),
    ('model = "periodic"', "model = []", "use one of periodic, poisson"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WHERE)
def test_the_line_is_the_wrong_one(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    at = next(number for number, line in enumerate(LINES) if line.startswith(right))
    lines = [*LINES[:at], LINES[at].replace(right, wrong), *LINES[at + 1 :]]
    path = tmp_path / "shop.toml"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(UserError) as raised:
        FromFile(path)
    told = str(raised.value)
    assert message in told, told
    assert told.startswith(f"{path}:{at + 1}: "), told
