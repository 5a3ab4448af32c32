// What all pages share.

// What a model wrote reaches the page as text only: `inside` are nodes and texts, never markup.
export function element(tag, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
}
