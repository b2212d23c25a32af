"use strict";
// Small multiples: each source has a plot of its own scale, as offsets of milliseconds and of hours
// stand side by side. Everything is made by the DOM, so no text is ever taken for markup.

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 420, HIGH = 116, LEFT = 62, RIGHT = 4, TOP = 8, BOTTOM = 20;

function svg(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A duration with as many digits as `step` seconds need to be told apart.
function seconds(value, step) {
  const size = Math.max(Math.abs(value), Math.abs(step || 0));
  const [unit, name] = size >= 3600 ? [3600, "h"] : size >= 60 ? [60, "min"] : size >= 1 ? [1, "s"]
    : size >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  const digits = step ? Math.ceil(-Math.log10(step / unit)) : 3 - Math.ceil(Math.log10(size / unit + 1e-9));
  const shown = (value / unit).toFixed(Math.min(Math.max(digits, 0), 9));
  return shown.replace("-", "−") + " " + name;
}

function ago(value) {
  const size = Math.abs(value);
  if (size < 90) return Math.round(size) + " s";
  return size < 5400 ? Math.round(size / 60) + " min" : Math.round(size / 3600) + " h";
}

function clockPlot(points) {
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" });
  const first = points[0][0], span = Math.max(-first, 1);
  let low = Infinity, high = -Infinity;
  for (const [, offset, bound] of points) {
    low = Math.min(low, offset - bound);
    high = Math.max(high, offset + bound);
  }
  const room = Math.max(high - low, 1e-6) * 0.08;
  low -= room; high += room;
  const x = (at) => LEFT + (at - first) / span * (WIDE - LEFT - RIGHT);
  const y = (value) => TOP + (high - value) / (high - low) * (HIGH - TOP - BOTTOM);
  const path = (places) => places.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ");
  picture.append(svg("rect", { class: "frame", x: LEFT, y: TOP, width: WIDE - LEFT - RIGHT, height: HIGH - TOP - BOTTOM, rx: 4 }));
  const upper = points.map(([at, offset, bound]) => [x(at), y(offset + bound)]);
  const lower = points.map(([at, offset, bound]) => [x(at), y(offset - bound)]).reverse();
  picture.append(svg("polygon", { class: "band", points: path(upper.concat(lower)) }));
  picture.append(svg("polyline", { class: "line", points: path(points.map(([at, offset]) => [x(at), y(offset)])) }));
  for (const [at, offset] of points.slice(-24, -1)) {
    picture.append(svg("circle", { class: "point", cx: x(at).toFixed(1), cy: y(offset).toFixed(1), r: 2.5 }));
  }
  const step = (high - low) / 4;
  picture.append(svg("text", { x: LEFT - 6, y: TOP + 9, "text-anchor": "end" }, seconds(high, step)));
  picture.append(svg("text", { x: LEFT - 6, y: HIGH - BOTTOM, "text-anchor": "end" }, seconds(low, step)));
  picture.append(svg("text", { x: LEFT, y: HIGH - 5 }, `${ago(first)} ago`));
  picture.append(svg("text", { x: WIDE - RIGHT, y: HIGH - 5, "text-anchor": "end" }, "now"));
  return picture;
}

function deviceList(devices) {
  if (!devices.length) return [];
  const list = document.createElement("ul");
  list.className = "devices";
  for (const { name, offset, bound, status } of devices) {
    const line = document.createElement("li");
    line.textContent = `${name}: ${seconds(offset, bound / 4)} ± ${seconds(bound)}, ${status}`;
    list.append(line);
  }
  return [list];
}

function clockFigure(clock) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const name = document.createElement("span"), value = document.createElement("span");
  name.className = "name"; value.className = "value";
  name.textContent = `${clock.site}/${clock.source}`;
  caption.append(name, value);
  figure.append(caption);
  const devices = deviceList(clock.devices);
  if (!clock.points.length) {
    value.textContent = "unknown: never synchronised";
    figure.append(...devices);
    return figure;
  }
  const [, offset, bound] = clock.points[clock.points.length - 1]; // now: the last sync's offset is held
  value.textContent = `${seconds(offset, bound / 4)} ± ${seconds(bound)}, ${clock.status}`;
  const first = clock.points[0][1];
  figure.setAttribute("aria-label", `Clock of ${name.textContent}: offset ${value.textContent}, ` +
    `${seconds(offset - first)} more than ${ago(clock.points[0][0])} ago`);
  figure.setAttribute("role", "img");
  figure.append(clockPlot(clock.points), ...devices);
  return figure;
}

function drawClocks(place, clocks) {
  place.replaceChildren(...clocks.map(clockFigure));
}
