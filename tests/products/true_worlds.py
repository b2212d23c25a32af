"""What windows say of what they cannot know, against where events may have happened in truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.products.questions import Result, counted
from tests.products.worlds import Event
from tests.window.plain import Product

_CLOSE = 1e-6


def hold(product: Product, results: Sequence[Result], true: Sequence[Event]) -> None:
    """That counts and bounds of ``results``, all that stand, hold if events happened as ``true``
    says: of windows of time in each, of sessions in those that are certain.
    """
    asked = replace(product, having="", best=None, drift="", emit="")
    answers = asked.answers(counted(true), 0)
    if product.kind[0] == "SESSION":
        valued = [(each["key"], each["value"]["n"]) for each in answers]
        for result in results:
            if result["certainty"] == "confirmed":
                assert (result["key"], result["value"]["n"]) in valued, result
        return
    by_place = {_place(each, each): each["value"] for each in answers}
    for result in results:
        value = by_place.get(_place(result["window"], result), {"n": 0})
        most = result["certain"] + result["ambiguous"]
        assert result["certain"] <= value["n"] <= most, result
        for name, two in (result["bounds"] or {}).items():
            if two is not None and None not in two and value.get(name) is not None:
                assert two[0] - _CLOSE <= value[name] <= two[1] + _CLOSE, (name, result)
    emitted = {_place(result["window"], result) for result in results}
    if not product.having and product.best is None:
        assert by_place.keys() <= emitted, "a window that may hold an event is not emitted"


def _place(window: dict[str, Any], result: dict[str, Any]) -> str:
    return json.dumps([window["start"], window["end"], result["key"]], sort_keys=True)
