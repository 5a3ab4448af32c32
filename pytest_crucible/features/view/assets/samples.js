// The list of an experiment's samples. The server filters, sorts and searches; here are the rows in view, and the state.
import { registerKey, registerSteps } from "./keys.js";
import { SampleRows, fetchJson } from "./sample_rows.js";
import { byId, element, grouped, readState } from "./view.js";
import { VirtualRows } from "./virtual_rows.js";

const grid = byId("samples");
const form = byId("filters");
const count = byId("count");
const problem = byId("problem");
const slice = byId("slice");
const TYPING_MS = 200;
const MOVING_MS = 250;
const REFRESH_MS = 3_000;
const WORDS = { "1": "\u25b2 better", "-1": "\u25bc worse", "0": "equal" };

// -- the state in form and address

// The address leaves out what has its usual value.
function usualValues() {
  return { metric: form.elements.metric.dataset.main, baseline: "1", experiment: grid.dataset.experiment };
}

function chosen() {
  const values = new URLSearchParams();
  if (grid.dataset.experiment !== "1") values.set("experiment", grid.dataset.experiment);
  const usual = usualValues();
  for (const [name, value] of new FormData(form)) if (value && value !== usual[name]) values.set(name, value);
  const option = slice?.selectedOptions[0];
  if (option?.dataset.by) {
    values.set("by", option.dataset.by);
    values.set("slice", option.value);
  }
  return values;
}

function restoreForm() {
  const usual = usualValues();
  for (const field of form.elements) if (field.name) field.value = readState(field.name) || usual[field.name] || "";
  restoreSlice();
}

function restoreSlice() {
  const isChosen = (option) => option.dataset.by === readState("by") && option.value === readState("slice");
  if (slice) slice.selectedIndex = Math.max(0, [...slice.options].findIndex(isChosen));
}

function addressOf(values) {
  return location.pathname + (values.size ? `?${values}` : "");
}

// The address has the sample with the focus, so that Esc on its page, and the back button, return to it.
function remember() {
  clearTimeout(moving);
  const values = new URLSearchParams(query);
  const position = rows.at(list.current)?.position;
  if (position !== undefined && grid.contains(document.activeElement)) values.set("at", position);
  history.replaceState(null, "", addressOf(values));
}

// -- rows

function cell(className, ...inside) {
  return element("span", { className, role: "gridcell" }, ...inside);
}

function drawRow(place) {
  const row = rows.at(place);
  return element("div", { className: "row", role: "row", ariaRowIndex: place + 2 }, ...(row ? cellsOf(row) : [cell("name", "\u2026")]));
}

function cellsOf(row) {
  const link = element("a", { href: row.href, tabIndex: -1 }, element("code", { textContent: row.id }));
  const group = row.group ? [element("span", { className: "of", textContent: row.group })] : [];
  const texts = ["prompt", "reply"].map((name) => element("span", { className: name, dir: "auto", textContent: row[name] }));
  const scores = row.scores.map((score, arm) => cell("number score", scoreText(score, row.states[arm])));
  const difference = scores.length > 1 ? [differenceCell(row)] : [];
  const cells = [cell("name", link, ...group), cell("texts", ...texts), ...scores, ...difference, cell("number", row.latency || "-")];
  cells.slice(2).forEach((one, place) => { one.dataset.head = heads[place + 2].textContent; });
  return cells;
}

function scoreText(score, state) {
  return [score, state === "answered" ? "" : state].filter(Boolean).join(", ") || "unknown";
}

function differenceCell({ difference, gain }) {
  const className = { "1": "better", "-1": "worse" }[gain] ?? "of";
  const word = element("span", { className, textContent: WORDS[gain] ?? "" });
  return cell("number difference", difference && gain ? `${difference} ` : "", word);
}

const heads = [...grid.querySelectorAll('[role="columnheader"]')];
let query = chosen();
let listing, typing, moving, refreshing;
const rows = new SampleRows((values) => addressOfRows(query, values), arrive, fail);
const list = new VirtualRows(grid, drawRow, (first, last) => rows.show(first, last));

function addressOfRows(values, more) {
  return `${grid.dataset.rows}?${new URLSearchParams([...values, ...Object.entries(more)])}`;
}

function arrive(first, last) {
  problem.hidden = true;
  list.redraw(first, last);
}

function fail({ message }) {
  problem.textContent = message;
  problem.hidden = false;
}

// Loads the list that the form describes, around the sample at a position.
async function load(at = "") {
  listing?.abort();
  listing = new AbortController();
  const values = chosen();
  grid.ariaBusy = "true";
  try {
    const place = at ? { around: at, count: 200 } : { from: 0, count: 100 };
    open(values, await fetchJson(addressOfRows(values, place), listing.signal));
  } catch (error) {
    if (error.name === "AbortError") return false;
    fail(error);
  }
  grid.ariaBusy = "false";
  return true;
}

function open(values, answer) {
  query = values;
  problem.hidden = true;
  take(answer);
  list.open(answer.total, answer.place ?? 0);
  clearInterval(refreshing);
  if (!answer.isFinal) refreshing = setInterval(refresh, REFRESH_MS);
}

function take(answer) {
  const { total, size } = answer;
  rows.open(answer);
  count.textContent = `${grouped(total)} of ${grouped(size)} samples`;
  grid.ariaRowCount = total + 1;
  for (const head of heads) head.ariaSort = sortOf(head);
  const baseline = form.elements.baseline?.selectedOptions[0];
  if (baseline) byId("baseline").textContent = baseline.textContent;
}

function sortOf(head) {
  const names = head.dataset.sorts?.split(" ") ?? [];
  return ["ascending", "descending"][names.indexOf(query.get("sort"))] ?? "none";
}

// While a run is unfinished, its rows are read again; the place in the list and the focus stay.
async function refresh() {
  if (document.hidden || grid.ariaBusy === "true") return;
  const shown = query;
  const answer = await fetchJson(addressOfRows(query, { from: Math.max(0, list.first - 50), count: 200 })).catch(fail);
  if (!answer || shown !== query) return;
  take(answer);
  list.change(answer.total);
  list.redraw(0, answer.total);
  if (answer.isFinal) clearInterval(refreshing);
}

// -- choices of the server

function optionOf({ value, text }, by) {
  const option = element("option", { value, textContent: by === undefined ? text : `${by.text} = ${text}` });
  if (by !== undefined) option.dataset.by = by.value;
  return option;
}

function replaceOptions(select, options) {
  const value = select.value || select.dataset.main;
  select.replaceChildren(...options);
  if ([...select.options].some((option) => option.value === value)) select.value = value;
}

async function loadChoices() {
  const answer = await fetchJson(`${grid.dataset.choices}?experiment=${grid.dataset.experiment}`);
  const { metric, group } = form.elements;
  metric.dataset.main = answer.metric ?? "";
  replaceOptions(metric, answer.metrics.map((one) => optionOf(one)));
  if (!metric.length) metric.add(new Option("no metric", ""));
  if (group && answer.groups) replaceOptions(group, [group.options[0], ...answer.groups.map((one) => optionOf(one))]);
  if (group && !answer.groups) group.replaceWith(element("input", { name: "group", type: "search", value: group.value }));
  slice?.replaceChildren(slice.options[0], ...answer.slices.map(sliceGroup));
  if (slice) slice.disabled = !answer.slices.length;
  restoreSlice();
}

function sliceGroup({ field, slices }) {
  return element("optgroup", { label: field.text }, ...slices.map((one) => optionOf(one, field)));
}

// -- what a person does

function change({ target }) {
  if (target.name === "search") return;
  if (target.name === "experiment") { location.assign(`?experiment=${target.value}`); return; }
  history.pushState(null, "", addressOf(chosen()));
  load();
}

function search() {
  clearTimeout(typing);
  typing = setTimeout(() => { history.replaceState(null, "", addressOf(chosen())); load(); }, TYPING_MS);
}

function step(by) {
  list.focus(grid.contains(document.activeElement) ? list.current + by : list.current);
}

function openSample() {
  remember();
  list.focused?.querySelector("a")?.click();
}

function moveByKey(event) {
  const places = {
    ArrowDown: list.current + 1, ArrowUp: list.current - 1, PageDown: list.current + list.page, PageUp: list.current - list.page,
    Home: 0, End: list.total - 1,
  };
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in places)) return;
  event.preventDefault();
  list.focus(places[event.key]);
}

function follow({ target }) {
  const index = target.closest(".row")?.ariaRowIndex;
  if (index && index - 2 !== list.current) { list.current = index - 2; list.render(); }
  clearTimeout(moving);
  moving = setTimeout(remember, MOVING_MS);
}

async function restore() {
  const at = readState("at");
  if (await load(at) && at && problem.hidden) list.focus(list.current);
}

registerKey("/", "search", () => form.elements.search.select());
registerSteps("sample", step);
registerKey("Enter", "open the sample", openSample);
registerKey("Escape", "back to the list of samples", () => step(0));
form.addEventListener("change", change);
form.addEventListener("input", ({ target }) => { if (target.name === "search") search(); });
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); load(); });
grid.addEventListener("keydown", moveByKey);
grid.addEventListener("focusin", follow);
grid.addEventListener("click", remember);
addEventListener("popstate", () => { restoreForm(); restore(); });
await restore();
await loadChoices().catch(fail);
