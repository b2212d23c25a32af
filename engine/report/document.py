"""A whole page as one HTML file: styles, Plotly, figures and numbers inside; no network.

A content security policy forbids every request, so that the page is the same on and off line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from engine.report.elements import text
from engine.report.figures import Figure
from engine.report.plain import as_json

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
DATA_ID: Final = "report-data"

SCRIPT: Final = """
(function () {
  "use strict";
  var specs = JSON.parse(document.getElementById("figure-data").textContent);
  var root = document.documentElement;
  function theme() {
    var style = getComputedStyle(root);
    function of(name) { return style.getPropertyValue(name).trim(); }
    var axis = { gridcolor: of("--line"), linecolor: of("--line"), zerolinecolor: of("--line"),
                 automargin: true };
    return { font: { color: of("--ink"), family: "system-ui, sans-serif", size: 12 }, axis: axis,
             hoverlabel: { bgcolor: of("--card"), font: { color: of("--ink") } } };
  }
  function layout(spec, now) {
    var made = Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      margin: { l: 8, r: 12, t: 8, b: 8 }, hovermode: "closest",
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom"
    }, spec.layout, { font: now.font, hoverlabel: now.hoverlabel });
    ["xaxis", "yaxis"].forEach(function (name) {
      made[name] = Object.assign({}, now.axis, spec.layout[name]);
      made[name].title = Object.assign({ standoff: 8 }, made[name].title);
    });
    return made;
  }
  var config = { responsive: true, displayModeBar: false, displaylogo: false, showLink: false };
  function draw() {
    var now = theme();
    specs.forEach(function (spec) {
      Plotly.react("plot-" + spec.name, spec.data, layout(spec, now), config);
    });
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  var closed = [];
  addEventListener("beforeprint", function () {
    root.setAttribute("data-paper", "");
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (each) { each.open = true; });
    draw();
  });
  addEventListener("afterprint", function () {
    root.removeAttribute("data-paper");
    closed.forEach(function (each) { each.open = false; });
    draw();
  });
})();
"""


def document(
    title: str,
    chapters: Mapping[str, str],
    body: str,
    figures: Iterable[Figure],
    report: Mapping[str, Any],
    footer: str,
) -> str:
    """The page.

    Args:
        title: its heading.
        chapters: anchor of a section -> its name in the contents.
        body: the sections, as HTML.
        figures: whose places (``elements.figure``) are in ``body``.
        report: plain data; all numbers of the page.
        footer: one or two sentences as HTML, the version of slackwater first.
    """
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and --help makes no page

    style = (files("engine.report") / "style.css").read_text(encoding="utf-8")
    contents = "".join(
        f'<a href="#{text(anchor)}">{text(name)}</a>' for anchor, name in chapters.items()
    )
    specs = embedded([each.spec() for each in figures])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{text(title)} · slackwater</title>
<style>
{style}
</style>
</head>
<body>
<header><h1>{text(title)}</h1>
<nav>{contents}</nav></header>
<main>
<noscript><p class="fails">The figures need JavaScript; the numbers are in the tables.
</p></noscript>
{body}
</main>
<footer>{footer}</footer>
<script type="application/json" id="{DATA_ID}">{embedded(report)}</script>
<script type="application/json" id="figure-data">{specs}</script>
<script>{get_plotlyjs()}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def embedded(value: Any) -> str:
    """Plain data as JSON that cannot end the script element it stands in."""
    return as_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
