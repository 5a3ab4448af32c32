// The page of a comparison: the keys of its list of samples, and the two replies to the open one compared by word.
import { Comparison } from "./difference.js";
import { registerKey } from "./keys.js";
import { onPart } from "./parts.js";

let comparison = null;

function move(steps) {
  const links = [...document.querySelectorAll("a.sample")];
  const open = links.findIndex((link) => link.getAttribute("aria-current"));
  const focused = links.indexOf(document.activeElement);
  const from = focused < 0 ? open : focused;
  const next = links[from < 0 ? 0 : Math.min(links.length - 1, Math.max(0, from + steps))];
  if (!next) return;
  next.focus();
  // While a sample is open, the next one takes its place.
  if (open >= 0) next.click();
}

// The replies of an opened sample are compared at once.
onPart((part) => {
  const section = part.querySelector("#comparison");
  if (!section) return;
  comparison = new Comparison(section);
  if (!comparison.isOpen) comparison.show();
});

registerKey("j", "next sample", () => move(1));
registerKey("k", "previous sample", () => move(-1));
registerKey("d", "compare the two replies by word", () => comparison?.toggle());
registerKey("Escape", "close the sample, back to the list", () => document.getElementById("close-replies")?.click());
