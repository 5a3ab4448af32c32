// Parts of a page that are open or folded, which its address says.

// The address has the numbers of the parts that are not as they are at first.
function writeOpened(parts) {
  const changed = parts.flatMap((details, number) => (details.open === details.opensFirst ? [] : [number]));
  const url = new URL(location);
  if (changed.length) url.searchParams.set("open", changed.join("."));
  else url.searchParams.delete("open");
  history.replaceState(history.state, "", url);
}

// Opens and folds `details` as the address says, and writes there what is opened and folded later.
export function openAsAddressed(elements) {
  const parts = [...elements];
  const changed = new Set((new URLSearchParams(location.search).get("open") ?? "").split("."));
  parts.forEach((details, number) => {
    details.opensFirst ??= details.open;
    details.open = details.opensFirst !== changed.has(String(number));
    details.ontoggle = () => writeOpened(parts);
  });
}
