"""The example notebook runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import slackwater

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "thermometers.ipynb"


def shown(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does; gives its last expression's value."""
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        before, expression = [*before, last], None
    else:
        expression = ast.Expression(last.value)
    exec(compile(ast.Module(before, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(expression, str(NOTEBOOK), "eval"), names) if expression else None


def test_every_cell_of_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    assert not any(cell["outputs"] for cell in cells), "keep outputs out of the repository"
    names: dict[str, Any] = {}
    _, head, windows, figure, warmer, table = (
        shown("".join(cell["source"]), names) for cell in cells
    )
    assert isinstance(head, pd.DataFrame)
    assert list(head["source"]) == ["cellar", "roof", "cellar", "roof"]
    assert isinstance(windows, slackwater.Results)
    assert sum(window["value"]["n"] for window in windows) == 120
    assert "<table" in windows._repr_html_()
    assert figure.data, "bounds and values"
    assert {certainty for certainty, _ in warmer} == {"confirmed"}
    assert set(table.columns) == {"order", "completeness", "hold_ns.p99"}
    assert "120 ['cellar', 'roof']" in capsys.readouterr().out
