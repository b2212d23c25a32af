"""The whole report as one HTML file: styles, Plotly, figures and numbers inside; no network.

A content security policy forbids every request, so that the page is the same on and off line.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from plotly.offline import get_plotlyjs

from engine.report.elements import text
from engine.report.figures import (
    Figure,
    clock_figures,
    disorder_figure,
    hold_figure,
)
from engine.report.front_sections import conservation_section, run_section, verdict_banner
from engine.report.measure_sections import (
    clock_section,
    disorder_section,
    glossary_section,
    hold_section,
    match_section,
    table_section,
    window_section,
)
from engine.report.plain import as_json
from engine.report.result_figures import match_figures, window_figures
from engine.report.units import TimeLine

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
DATA_ID: Final = "report-data"
_CHAPTERS: Final = {
    "verdict": "Verdict", "run": "Run", "conservation": "Events", "disorder": "Disorder",
    "holds": "Hold time", "clocks": "Clocks", "windows": "Windows", "matches": "Matches",
    "tables": "Tables", "glossary": "Glossary",
}  # fmt: skip

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


def page(report: Mapping[str, Any]) -> str:
    """The page that shows ``report`` (what ``report.json`` holds)."""
    run = report["run"]
    time = TimeLine.of(run["first_arrival_ns"], run["last_arrival_ns"])
    disorder, holds = disorder_figure(report["disorder"]), hold_figure(report["holds"])
    clocks = clock_figures(report["clock_error"], time)
    windows = window_figures(report["windows"], time)
    matches = match_figures(report["matches"], time)
    sections = {
        "verdict": verdict_banner(report),
        "run": run_section(report, time),
        "conservation": conservation_section(report),
        "disorder": disorder_section(report, disorder),
        "holds": hold_section(report, holds),
        "clocks": clock_section(report, clocks),
        "windows": window_section(report, windows),
        "matches": match_section(report, matches),
        "tables": table_section(report),
        "glossary": glossary_section(report),
    }
    figures = [each for each in (disorder, holds, *clocks, *windows, *matches) if each]
    contents = "".join(
        f'<a href="#{name}">{text(heading)}</a>'
        for name, heading in _CHAPTERS.items()
        if sections[name]
    )
    return _document(str(report["title"]), contents, "\n".join(sections.values()), figures, report)


def _document(
    title: str, contents: str, body: str, figures: list[Figure], report: Mapping[str, Any]
) -> str:
    style = (files("engine.report") / "style.css").read_text(encoding="utf-8")
    version = report["run"]["reported_with"]["slackwater"]
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
<footer>slackwater {text(version)}. Times are relative to the run's first arrival. All numbers of
this page are inside it as JSON (<code>#{DATA_ID}</code>) and in report.json.</footer>
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
