(function () {
  "use strict";
  var root = document.documentElement;
  // The library that draws is three quarters of a page, and packs to a third.
  function unpacked(then) {
    var packed = document.getElementById("plotly");
    if (!window.DecompressionStream) {
      document.getElementById("not-drawn").hidden = false;
      root.setAttribute("data-undrawn", "");
      return;
    }
    var bytes = Uint8Array.from(atob(packed.textContent.trim()), function (each) { return each.charCodeAt(0); });
    var plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    new Response(plain).text().then(function (text) {
      var script = document.createElement("script");
      script.textContent = text;
      document.head.appendChild(script);
      packed.remove();
      then();
    });
  }
  var specs = JSON.parse(document.getElementById("figure-data").textContent);
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
  function follow(place) {
    if (place.dataset.follows) { return; }
    place.dataset.follows = "yes";
    place.on("plotly_click", function (event) {
      var aim = event.points[0].customdata;
      if (typeof aim === "string" && aim[0] === "#") { location.hash = aim; }
    });
  }
  // On a phone a legend has a line per entry, which is no room of the figure's.
  function roomForLegend(place, spec) {
    var entries = spec.data.filter(function (each) { return each.name && each.showlegend !== false; }).length;
    if (place.clientWidth > 600 || spec.layout.showlegend === false || entries < 5) { return; }
    place.dataset.height = place.dataset.height || place.offsetHeight;
    place.style.height = Number(place.dataset.height) + 19 * (entries - 4) + "px";
  }
  // Cells of a map say less where their columns are narrow.
  function fitting(place, data) {
    if (place.clientWidth > 600) { return data; }
    return data.map(function (each) {
      return each.meta ? Object.assign({}, each, { text: each.meta.narrow, textfont: { size: 11 } }) : each;
    });
  }
  // What is folded is drawn when it is opened: a page of many figures is there at once.
  function draw(again) {
    if (!window.Plotly) { return; }
    var now = theme();
    specs.forEach(function (spec) {
      var place = document.getElementById("plot-" + spec.name);
      if (!place || place.closest("details:not([open])") || (spec.drawn && !again)) { return; }
      spec.drawn = true;
      roomForLegend(place, spec);
      Plotly.react(place, fitting(place, spec.data), layout(spec, now), config).then(function () { follow(place); });
    });
  }
  unpacked(function () { draw(false); });
  document.querySelectorAll("details").forEach(function (each) {
    each.addEventListener("toggle", function () { if (each.open) { draw(false); } });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { draw(true); });
  var closed = [];
  addEventListener("beforeprint", function () {
    root.setAttribute("data-paper", "");
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (each) { each.open = true; });
    draw(true);
  });
  addEventListener("afterprint", function () {
    root.removeAttribute("data-paper");
    closed.forEach(function (each) { each.open = false; });
    draw(true);
  });
})();
