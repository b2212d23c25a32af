"use strict";
// One stream of server-sent events fills the page. Whatever comes is put in as text, never as markup.

const RESULTS_SHOWN = matchMedia("(max-width: 50rem)").matches ? 120 : 200, SILENT_MS = 6000, RETRY_MS = 3000, DRAW_MS = 4000;
const COLUMNS = [
  ["source", "Source", "asc"], ["state", "State", "asc"], ["offset", "Clock offset", "desc"],
  ["delay", "Path delay", "desc"], ["rate", "Events/s", "desc"], ["lag", "Lag", "desc"],
  ["disorder", "Disorder", "desc"], ["missing", "Missing", "desc"], ["seen", "Last seen", "desc"],
  ["events", "Events", "desc"],
];
const SINK_COLUMNS = ["Sink", "Kind", "Behind", "Delivered", "Last delivery", "Refused", "Last error"];
const SUMS = [
  ["received", "received"], ["recorded", "recorded", "="], ["duplicate", "duplicates", "+"],
  ["refused", "refused", "+"], ["put_off", "put off", "+"], ["given_up", "numbers given up", "", "apart"],
  ["reused", "numbers used again", "", "apart"],
];
const byId = (id) => document.getElementById(id);
const numbers = new Intl.NumberFormat("en");
const clockTime = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });
const dayAndTime = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const wish = { sort: "source", order: "asc", find: "", page: 0 };
let stream = null, read = 0, heard = 0, retry = 0, drawn = 0, held = false;
const waiting = [], entries = new Map();

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// --- the stream

function open() {
  clearTimeout(retry);
  if (stream) stream.close();
  const query = new URLSearchParams({ ...wish, after: read });
  stream = new EventSource(`live?${query}`);
  stream.addEventListener("state", (event) => { heard = Date.now(); showState(JSON.parse(event.data)); });
  stream.addEventListener("results", (event) => { heard = Date.now(); read = event.lastEventId; take(JSON.parse(event.data)); });
  stream.addEventListener("error", lost);
}

async function lost() {
  link("lost", "connection lost, trying again");
  if (stream.readyState !== EventSource.CLOSED) return; // it tries by itself
  clearTimeout(retry);
  retry = setTimeout(start, RETRY_MS);
}

async function start() {
  let answer = null;
  try { answer = await fetch("state", { headers: { Accept: "application/json" } }); } catch { /* told by lost() */ }
  if (answer === null || (!answer.ok && answer.status !== 401)) {
    link("lost", "connection lost, trying again");
    retry = setTimeout(start, RETRY_MS);
    return;
  }
  byId("login").hidden = answer.ok;
  document.querySelector("main").hidden = !answer.ok;
  if (answer.ok) open();
  else { link("waiting", "token needed"); byId("token").focus(); }
}

function link(state, text) {
  byId("link").dataset.state = state;
  setText(byId("link"), text);
}

// --- sources and sums

function showState(told) {
  link("live", "live");
  setText(byId("clock"), dayAndTime.format(told.at * 1000));
  showSums(told.sums);
  showFailed(told.answers);
  showSinks(told.answers.sinks, told.at);
  const states = Object.entries(told.sums.states).filter(([, n]) => n).map(([name, n]) => `${numbers.format(n)} ${name}`);
  const back = told.sums.not_back ? `; ${numbers.format(told.sums.not_back)} of the log not back yet` : "";
  setText(byId("states"), `${numbers.format(told.total)}: ${states.join(", ") || "none yet"}${back}`);
  showRows(told.rows);
  const nothing = byId("nothing");
  nothing.hidden = told.rows.length > 0;
  setText(nothing, told.total ? "No source has that in its name." : "No source has come yet. Start an agent: it appears here.");
  byId("pages").hidden = told.pages < 2;
  setText(byId("page"), `page ${told.page + 1} of ${told.pages}, ${numbers.format(told.matching)} sources`);
  byId("before").disabled = told.page === 0;
  byId("after").disabled = told.page + 1 >= told.pages;
  wish.page = told.page;
  showClocks(told);
  showAlarms(told.alarms);
}

function showAlarms({total, shown}) {
  byId("alarms-total").hidden = !total;
  const more = total > shown.length ? `, of which ${shown.length} are shown` : "";
  setText(byId("alarms-total"), `Times or numbers that nothing declared explains, of ${numbers.format(total)} ${total === 1 ? "source" : "sources"}${more}:`);
  byId("alarms").replaceChildren(...shown.map(({site, source, alarm}) => element("li", `${site}/${source}: ${alarm}`)));
}

function showSums(sums) {
  const place = byId("sums");
  if (!place.children.length) {
    for (const [name, label, sign, apart] of SUMS) {
      if (sign) place.append(element("div", sign, "sign"));
      const box = element("div", undefined, apart || "");
      const value = element("dd", "0");
      value.dataset.name = name;
      box.append(element("dt", label), value);
      place.append(box);
    }
    for (const sign of place.querySelectorAll(".sign")) sign.setAttribute("aria-hidden", "true");
  }
  for (const value of place.querySelectorAll("dd")) setText(value, numbers.format(sums.events[value.dataset.name]));
  const waits = sums.events.recorded - sums.logged;
  const right = sums.balance === 0 && waits >= 0;
  byId("balance").dataset.good = right ? "yes" : "no";
  setText(byId("balance"), right
    ? `The sums agree. ${numbers.format(sums.logged)} in the log${waits ? `, ${numbers.format(waits)} on their way into it` : ""}.`
    : `The sums do not agree: ${numbers.format(sums.balance || waits)} events are unaccounted for.`);
  const faults = Object.entries(sums.faults).map(([reason, n]) => `${reason} ${numbers.format(n)}`);
  const letters = sums.letters ? `Dead letters: ${numbers.format(sums.letters)} kept. ` : "";
  const gone = sums.letters_dropped ? `${numbers.format(sums.letters_dropped)} more had no room. ` : "";
  setText(byId("faults"), letters + gone + (faults.length ? `Turned away: ${faults.join(", ")}.` : ""));
}

function showFailed(answers) {
  const total = answers.failed_total;
  byId("failed").hidden = answers.running && !total;
  const aside = total ? `${numbers.format(total)} set aside at a site; all others go on.` : "";
  setText(byId("failed-total"), answers.running ? aside : `The engine is not at work: no query is answered, for now. ${aside}`);
  byId("failed-rows").replaceChildren(...answers.failed.map(({query, site, reason}) => element("li", `${query} of ${site}: ${reason}`)));
}

function showSinks(sinks, now) {
  byId("sinks").hidden = !sinks.length;
  if (!byId("sinks-head").children.length) {
    SINK_COLUMNS.forEach((label, place) => {
      const cell = element("th", label, place === 0 || place === 2 || place === 3 || place === 5 ? "" : "text");
      cell.scope = "col";
      byId("sinks-head").append(cell);
    });
  }
  byId("sinks-rows").replaceChildren(...sinks.map((sink) => {
    const line = element("tr"), name = element("th", sink.name), age = now - sink.delivered_at;
    name.scope = "row";
    const behind = sink.behind_bytes ? `${numbers.format(sink.behind_bytes)} B, ${ago(sink.behind_s)}` : "0";
    const last = sink.delivered_at === null ? "–" : age < 1.5 ? "now" : `${ago(age)} ago`;
    const error = sink.waits ? `waits: ${sink.waits}` : sink.last_error || "–";
    const texts = [sink.kind, behind, numbers.format(sink.delivered), last, numbers.format(sink.dead), error];
    line.append(name, ...texts.map((text, place) => {
      const cell = element("td", undefined, place === 1 || place === 2 || place === 4 ? "" : "text");
      const mark = (place === 1 && sink.is_far_behind) || (place === 4 && sink.dead) || (place === 5 && sink.waits);
      cell.dataset.label = SINK_COLUMNS[place + 1];
      cell.append(element("span", text, mark ? "mark" : ""));
      return cell;
    }));
    return line;
  }));
}

function showHead() {
  for (const [name, label, first] of COLUMNS) {
    const cell = element("th", undefined, name === "state" ? "text" : "");
    const button = element("button", label);
    cell.scope = "col";
    cell.dataset.name = name;
    button.type = "button";
    button.addEventListener("click", () => {
      wish.order = wish.sort === name ? (wish.order === "asc" ? "desc" : "asc") : first;
      sortBy(name);
    });
    cell.append(button);
    byId("head").append(cell);
  }
  markSort();
}

function sortBy(name) {
  wish.sort = name;
  wish.page = 0;
  markSort();
  open();
}

function markSort() {
  const word = wish.order === "asc" ? "ascending" : "descending";
  for (const cell of byId("head").children) cell.setAttribute("aria-sort", cell.dataset.name === wish.sort ? word : "none");
  byId("sort").value = wish.sort;
}

function showRows(rows) {
  const body = byId("rows");
  while (body.children.length > rows.length) body.lastElementChild.remove();
  while (body.children.length < rows.length) body.append(emptyRow());
  rows.forEach((row, place) => fillRow(body.children[place], row));
}

function emptyRow() {
  const line = element("tr"), name = element("th");
  name.scope = "row";
  name.append(element("span", "", "site"), element("span", ""));
  line.append(name);
  for (const [key, label] of COLUMNS.slice(1)) {
    const cell = element("td", undefined, key === "state" ? "text" : "");
    cell.dataset.label = label;
    cell.dataset.name = key;
    cell.append(element("span", "", key === "state" ? "state" : ""));
    if (key === "offset") cell.firstChild.append(element("span", ""), element("span", "", "bound"));
    line.append(cell);
  }
  return line;
}

function fillRow(line, row) {
  const [name, state, offset, delay, rate, lag, disorder, missing, seen, events] = line.children;
  line.dataset.state = row.state;
  setText(name.children[0], `${row.site}/`);
  setText(name.children[1], row.source);
  name.title = `${row.site}/${row.source}`;
  setText(state.firstChild, row.state);
  setText(offset.firstChild.children[0], row.offset === null ? "unknown" : seconds(row.offset, row.bound / 4));
  setText(offset.firstChild.children[1], row.offset === null ? "" : ` ± ${seconds(row.bound)}`);
  setText(delay.firstChild, row.delay === null ? "–" : seconds(row.delay));
  setText(rate.firstChild, row.rate >= 99.95 ? numbers.format(Math.round(row.rate)) : row.rate.toFixed(1));
  setText(lag.firstChild, row.lag === null ? "–" : seconds(row.lag));
  lag.firstChild.className = row.alarm ? "mark" : "";
  lag.title = row.alarm;
  setText(disorder.firstChild, row.disorder === null ? "–" : `${(100 * row.disorder).toFixed(1)} %`);
  const gone = row.counts.given_up ? `, ${numbers.format(row.counts.given_up)} given up` : "";
  setText(missing.firstChild, (row.missing ? `${numbers.format(row.missing)} in ${numbers.format(row.gaps)}` : "0") + gone);
  missing.firstChild.className = row.missing || row.counts.given_up ? "mark" : "";
  missing.title = "numbers that have not come, and in how many gaps";
  setText(seen.firstChild, row.seen === null ? "–" : row.seen < 1.5 ? "now" : `${ago(row.seen)} ago`);
  setText(events.firstChild, numbers.format(row.events));
}

function showClocks(told) {
  if (Date.now() - drawn < DRAW_MS && told.clocks.length === byId("clocks").children.length) return;
  drawn = Date.now();
  drawClocks(byId("clocks"), told.clocks);
  const left = told.matching > told.clocks.length;
  setText(byId("clocks-total"), left ? `Shown: the first ${told.clocks.length} of the table, of ${numbers.format(told.matching)}.` : "");
}

// --- results

function take(told) {
  if (held) {
    waiting.push(told);
    if (waiting.length > 20) waiting.shift(), waiting[0].skipped += RESULTS_SHOWN;
    setText(byId("hold"), "Go on");
    return;
  }
  showResults(told);
}

function showResults(told) {
  const list = byId("results");
  if (told.skipped) {
    // Among them may be retractions of what stands here.
    list.replaceChildren(element("li", `${numbers.format(told.skipped)} results were not shown; the list starts again here.`, "note"));
    entries.clear();
  }
  for (const result of told.results) {
    const known = entries.get(result.key);
    if (result.op === "-") {
      if (known) takeBack(known); else prepend(list, result, true);
    } else {
      prepend(list, result, false);
    }
  }
  while (list.children.length > RESULTS_SHOWN) {
    const last = list.lastElementChild;
    if (entries.get(last.dataset.key) === last) entries.delete(last.dataset.key);
    last.remove();
  }
  byId("results-none").hidden = list.children.length > 0;
  setText(byId("results-total"), `the newest ${list.children.length}`);
}

function prepend(list, result, taken) {
  const line = element("li", undefined, "new");
  const time = element("time", clockTime.format(result.at * 1000));
  time.dateTime = new Date(result.at * 1000).toISOString();
  const what = element("span", result.what, "what");
  const more = [result.window ? span(result.window) : "", result.more, faults(result)].filter(Boolean).join("; ");
  if (more) what.append(" ", element("span", more, "more"));
  const [mark, word] = certainty(result);
  const sure = element("span", word, "certainty");
  sure.dataset.is = mark;
  line.append(time, element("span", `${result.query} ${result.site}`, "query"), what, sure);
  line.dataset.key = result.key;
  list.prepend(line);
  if (taken) takeBack(line); else entries.set(result.key, line);
}

function span(window) {
  const [start, end] = window.map((at) => clockTime.format(at * 1000));
  return `${start} to ${end}`;
}

function certainty(result) {
  if (result.certainty) {
    const chance = typeof result.probability === "number" && result.certainty === "uncertain" ? ` ${Math.round(100 * result.probability)} %` : "";
    return [result.certainty, result.certainty + chance];
  }
  return result.ambiguous || result.missing ? ["uncertain", "uncertain"] : ["confirmed", "confirmed"];
}

function faults(result) {
  const told = [];
  if (result.ambiguous) told.push(`${numbers.format(result.ambiguous)} ambiguous`);
  if (result.missing) told.push(`${numbers.format(result.missing)} missing`);
  return told.join(", ");
}

function takeBack(line) {
  line.dataset.taken = "yes";
  const mark = line.querySelector(".certainty");
  mark.dataset.is = "taken";
  mark.textContent = "taken back";
  entries.delete(line.dataset.key);
}

// --- what people do

showHead();
byId("sort").addEventListener("change", (event) => {
  wish.order = COLUMNS.find(([name]) => name === event.target.value)[2];
  sortBy(event.target.value);
});
let typing = 0;
byId("find").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => { wish.find = event.target.value; wish.page = 0; open(); }, 300);
});
byId("before").addEventListener("click", () => { wish.page -= 1; open(); });
byId("after").addEventListener("click", () => { wish.page += 1; open(); });
byId("hold").addEventListener("click", () => {
  held = !held;
  byId("hold").setAttribute("aria-pressed", String(held));
  setText(byId("hold"), "Hold");
  for (const told of waiting.splice(0)) showResults(told);
});
byId("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("login", { method: "POST", body: new URLSearchParams({ token: byId("token").value }) });
  setText(byId("login-error"), answer.ok ? "" : "That is not the token.");
  if (answer.ok) { byId("token").value = ""; start(); }
});
setInterval(() => {
  if (heard && Date.now() - heard > SILENT_MS && byId("link").dataset.state === "live") link("lost", "nothing heard from the gateway");
}, 1000);
start();
