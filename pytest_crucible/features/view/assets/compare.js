// The page of a comparison: the keys of its list of samples.
import { registerKey } from "./keys.js";
import "./parts.js";

const samples = () => [...document.querySelectorAll("a.sample")];

function move(steps) {
  const links = samples();
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + steps));
  links[next]?.focus();
}

registerKey("j", "next sample", () => move(1));
registerKey("k", "previous sample", () => move(-1));
registerKey("Escape", "back to the list", () => document.getElementById("close-replies")?.click());
