// The filters of the list of runs, and the choice of two of them. The address has both.
import { registerKey } from "./keys.js";
import { morph } from "./morph.js";

const COMPARED = "compare";
const form = document.getElementById("filters");
const list = document.getElementById("runs");
const compare = document.getElementById("compare");
let latest = 0;

function addressOf(form) {
  const url = new URL(form.action);
  for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
  const compared = new URLSearchParams(location.search).get(COMPARED);
  if (compared) url.searchParams.set(COMPARED, compared);
  return url;
}

async function showList(url) {
  const turn = ++latest;
  const response = await fetch(url);
  const text = await response.text();
  // Another filter has been chosen meanwhile.
  if (turn !== latest || !response.ok) return;
  const fresh = new DOMParser().parseFromString(text, "text/html");
  morph(list, fresh.getElementById("runs"));
}

// Letters that are typed change one entry of the history; a choice makes a new one, to which the back button leads.
function filterList(event) {
  const url = addressOf(form);
  if (event.type === "input" && event.target.type === "search") history.replaceState(null, "", url);
  else if (url.href !== location.href) history.pushState(null, "", url);
  else return;
  showList(url);
}

function restore() {
  const state = new URLSearchParams(location.search);
  for (const field of form.elements) if (field.name) field.value = state.get(field.name) ?? "";
  showList(location.href);
}

// The run that is higher in the list, which is the newer one, is compared with the other.
function chosenRuns() {
  const state = new URLSearchParams(location.search);
  return (state.get(COMPARED) ?? "").split(".").filter(Boolean);
}

function writeChoice(runs) {
  const url = new URL(location);
  if (runs.length) url.searchParams.set(COMPARED, runs.join("."));
  else url.searchParams.delete(COMPARED);
  history.replaceState(null, "", url);
  compare.disabled = runs.length !== 2;
}

function choose({ target }) {
  if (target.type !== "checkbox") return;
  const others = chosenRuns().filter((run) => run !== target.value);
  const runs = target.checked ? [...others.slice(-1), target.value] : others;
  writeChoice(runs);
  for (const box of list.querySelectorAll("[type=checkbox]")) box.checked = runs.includes(box.value);
}

function openComparison() {
  const [one, other] = chosenRuns();
  const order = [...list.querySelectorAll("[type=checkbox]")].map((box) => box.value);
  const isNewer = order.indexOf(one) <= order.indexOf(other);
  location.assign(`${compare.dataset.address}/${isNewer ? `${one}/${other}` : `${other}/${one}`}`);
}

function focusRun(step) {
  const links = [...list.querySelectorAll("th a")];
  const now = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  links[Math.max(0, Math.min(links.length - 1, now < 0 ? 0 : now + step))]?.focus();
}

if (form) {
  form.addEventListener("submit", (event) => { event.preventDefault(); filterList(event); });
  form.addEventListener("input", filterList);
  addEventListener("popstate", restore);
  list.addEventListener("change", choose);
  compare.addEventListener("click", openComparison);
  registerKey("/", "search by suite", () => form.elements.suite.focus());
  registerKey("Escape", "from the filters to the runs", () => { if (form.contains(document.activeElement)) focusRun(0); });
  registerKey("j", "next run", () => focusRun(1));
  registerKey("k", "previous run", () => focusRun(-1));
}
