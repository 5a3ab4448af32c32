// Compares two texts apart from the page, which stays responsive.
import { compareTexts } from "./word_difference.js";

self.addEventListener("message", ({ data: { before, after } }) => {
  const difference = compareTexts(before, after);
  self.postMessage(difference, [difference.spans.buffer]);
});
