(function () {
  "use strict";
  // A click on a heading sorts; durations and shares by what they are, not as texts.
  var units = { ns: 1, "\u00b5s": 1e3, us: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, d: 8.64e13 };
  function size(text) {
    var found = /^[<>\u00b1+]? ?(-?[0-9][0-9,.]*)[ \u00a0]?(ns|\u00b5s|us|ms|s|min|h|d|%)?\b/.exec(text.trim());
    return found ? parseFloat(found[1].replace(/,/g, "")) * (units[found[2]] || 1) : null;
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells).forEach(function (head, place) {
      head.tabIndex = 0;
      head.setAttribute("role", "columnheader button");
      function sort() {
        var up = head.getAttribute("aria-sort") !== "ascending";
        Array.from(table.tHead.rows[0].cells).forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        var rows = Array.from(body.rows).map(function (row) {
          var text = row.cells[place].textContent;
          return { row: row, text: text, size: size(text) };
        });
        rows.sort(function (a, b) {
          if (a.size === null || b.size === null) {
            if (a.size !== b.size) { return a.size === null ? 1 : -1; }
            return (up ? 1 : -1) * a.text.localeCompare(b.text, undefined, { numeric: true });
          }
          return (up ? 1 : -1) * (a.size - b.size);
        });
        rows.forEach(function (each) { body.appendChild(each.row); });
      }
      head.addEventListener("click", function (event) { if (!event.target.closest("a")) { sort(); } });
      head.addEventListener("keydown", function (event) { if (event.key === "Enter") { sort(); } });
    });
  });
  // A table wider than its place, or whose cells are columns of single words, becomes a card per row, so that nothing is cut off.
  function fit(box) {
    var table = box.firstElementChild;
    if (!box.clientWidth) { return; }
    table.querySelectorAll("td").forEach(function (each) {
      each.classList.toggle("wide", each.textContent.length > 60);
    });
    table.classList.remove("cards");
    var squeezed = box.clientWidth < 600 && !table.classList.contains("facts")
      && Array.from(table.tBodies[0].rows).some(function (row) { return row.offsetHeight > 200; });
    if (table.scrollWidth > box.clientWidth || squeezed) { table.classList.add("cards"); }
  }
  function fitAll(inside) { inside.querySelectorAll(".scroll").forEach(fit); }
  fitAll(document);
  var width = innerWidth;
  addEventListener("resize", function () {
    if (innerWidth !== width) { width = innerWidth; fitAll(document); }
  });
  document.querySelectorAll("details").forEach(function (each) {
    each.addEventListener("toggle", function () { if (each.open) { fitAll(each); } });
  });
  // A link into something closed opens it.
  function reveal() {
    var aim = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!aim) { return; }
    for (var each = aim; each; each = each.parentElement) {
      if (each.tagName === "DETAILS") { each.open = true; }
    }
    aim.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) { reveal(); }
  });
  reveal();
})();
