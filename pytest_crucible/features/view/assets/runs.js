// The filters of the list of runs, and the choice of two of them. The address has both.
import { focusRow, registerKey, registerSteps } from "./keys.js";
import { refresh } from "./live.js";
import { byId, readState, writeState } from "./view.js";

const COMPARED = "compare";
const form = byId("filters");
const list = byId("runs");
const compare = byId("compare");

function addressOf(form) {
  const url = new URL(form.action);
  for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
  if (readState(COMPARED)) url.searchParams.set(COMPARED, readState(COMPARED));
  return url;
}

// The list of the address. Where the server is gone, the page has a notice.
function showList() {
  refresh().catch(() => {});
}

// Letters that are typed change one entry of the history; a choice makes a new one, to which the back button leads.
function filterList(event) {
  const url = addressOf(form);
  if (event.type === "input" && event.target.type === "search") history.replaceState(null, "", url);
  else if (url.href !== location.href) history.pushState(null, "", url);
  else return;
  showList();
}

function restore() {
  for (const field of form.elements) if (field.name) field.value = readState(field.name);
  showList();
}

const chosenRuns = () => readState(COMPARED).split(".").filter(Boolean);
const boxes = () => [...list.querySelectorAll("[type=checkbox]")];

function choose({ target }) {
  if (target.type !== "checkbox") return;
  const others = chosenRuns().filter((run) => run !== target.value);
  const runs = target.checked ? [...others.slice(-1), target.value] : others;
  writeState(COMPARED, runs.join("."));
  compare.disabled = runs.length !== 2;
  for (const box of boxes()) box.checked = runs.includes(box.value);
}

// The run that is higher in the list, which is the newer one, is compared with the other.
function openComparison() {
  const [one, other] = chosenRuns();
  const order = boxes().map((box) => box.value);
  const isNewer = order.indexOf(one) <= order.indexOf(other);
  location.assign(`${compare.dataset.address}/${isNewer ? `${one}/${other}` : `${other}/${one}`}`);
}

function focusRun(by) {
  focusRow([...list.querySelectorAll("th a")], by);
}

if (form) {
  form.addEventListener("submit", (event) => { event.preventDefault(); filterList(event); });
  form.addEventListener("input", filterList);
  addEventListener("popstate", restore);
  list.addEventListener("change", choose);
  compare.addEventListener("click", openComparison);
  registerKey("/", "search by suite", () => form.elements.suite.focus());
  registerKey("Escape", "from the filters to the runs", () => { if (form.contains(document.activeElement)) focusRun(0); });
  registerSteps("run", focusRun);
}
