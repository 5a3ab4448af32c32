// The page of one sample: its neighbours in the list, and two of its texts compared by word.
import { Comparison } from "./difference.js";
import { registerKey, registerSteps } from "./keys.js";
import { openAsAddressed } from "./opened.js";
import { onPart } from "./parts.js";
import { byId, element, grouped, leadsElsewhere, readState, request } from "./view.js";

const comparison = byId("comparison");
const neighbours = byId("neighbours");
const keys = { next: "j", prev: "k" };

// What the address of this page says of the page itself; the rest is the state of the list.
const OWN_STATE = ["variant", "draw", "compare", "open"];

if (comparison) {
  const words = new Comparison(comparison);
  registerKey("d", "compare two replies by word", () => words.toggle());
}
registerSteps("sample of the list", (by) => follow(by > 0 ? "next" : "prev"));
registerKey("Escape", "back to the same place in the list", () => byId("back").click());
const openParts = () => openAsAddressed(document.querySelectorAll("main details"));
onPart(openParts);
if (!document.querySelector("[data-part]")) openParts();
const neighboursLoaded = loadNeighbours();

// A comparison that is open stays open on the next page.
async function follow(rel) {
  await neighboursLoaded;
  const link = neighbours.querySelector(`[rel=${rel}]`);
  if (!link) return;
  const address = new URL(link.href), open = readState("compare");
  if (open) address.searchParams.set("compare", open);
  location.assign(address);
}

// Asks for the rows around this one, in the order of the list from which it was opened.
async function loadNeighbours() {
  const { rows: address, experiment, position } = neighbours.dataset;
  const query = new URLSearchParams(location.search);
  for (const name of OWN_STATE) query.delete(name);
  for (const [name, value] of Object.entries({ experiment, around: position, count: "3" })) query.set(name, value);
  const response = await request(`${address}?${query}`).catch(() => null);
  if (response) showNeighbours(await response.json());
}

function showNeighbours({ rows, from, place, total }) {
  if (place === null) {
    neighbours.append("not in the list of the address");
    return;
  }
  const links = [neighbour("prev", "Previous", rows[place - from - 1]), neighbour("next", "Next", rows[place - from + 1])];
  neighbours.append(`${grouped(place + 1)} of ${grouped(total)} `, ...links.filter(Boolean));
}

function neighbour(rel, name, row) {
  if (!row) return null;
  const link = element("a", { href: row.href, rel }, `${name} `, element("kbd", { textContent: keys[rel] }));
  link.addEventListener("click", (event) => {
    if (leadsElsewhere(event)) return;
    event.preventDefault();
    follow(rel);
  });
  return link;
}
