// The page of a comparison: the keys of its list of samples, and the two replies to the open one compared by word.
import { Comparison } from "./difference.js";
import { focusRow, registerKey, registerSteps } from "./keys.js";
import { onPart } from "./parts.js";
import { byId } from "./view.js";

let comparison = null;

// While a sample is open, the next one takes its place.
function step(by) {
  const open = document.querySelector("a.sample[aria-current]");
  const next = focusRow([...document.querySelectorAll("a.sample")], by, open);
  if (open) next.click();
}

// The replies of an opened sample are compared at once.
onPart((part) => {
  const section = part.querySelector("#comparison");
  if (!section) return;
  comparison = new Comparison(section);
  if (!comparison.isOpen) comparison.show();
});

registerSteps("sample", step);
registerKey("d", "compare the two replies by word", () => comparison?.toggle());
registerKey("Escape", "close the sample, back to the list", () => byId("close-replies")?.click());
