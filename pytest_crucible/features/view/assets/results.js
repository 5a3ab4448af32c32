// Fetches the verdicts and sections of a finished run into its page.

const place = document.getElementById("results");

// Called when the page of a finished run is opened, and when a run ends on an open page.
export async function loadResults() {
  place.setAttribute("aria-busy", "true");
  const response = await fetch(place.dataset.address);
  // The server wrote it from escaped text, under a policy that allows no script in it.
  place.innerHTML = await response.text();
  place.setAttribute("aria-busy", "false");
}

if (place.getAttribute("aria-busy") === "true") loadResults();
