// Parts of a page that are open or folded, which its address says.
import { readState, writeState } from "./view.js";

// Opens and folds `details` as the address says, by the numbers of those that are not as at first, and writes there what changes.
export function openAsAddressed(elements) {
  const parts = [...elements];
  const changed = new Set(readState("open").split("."));
  parts.forEach((details, number) => {
    details.opensFirst ??= details.open;
    details.open = details.opensFirst !== changed.has(String(number));
    details.ontoggle = () => writeState("open", parts.flatMap((part, k) => (part.open === part.opensFirst ? [] : [k])).join("."));
  });
}
