// Makes an element like another one and leaves what is equal as it is: the focus, what is selected and the place of the page stay.

export function morph(element, fresh) {
  const focused = document.activeElement;
  update(element, fresh);
  // An element that was moved has lost it.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function update(node, fresh) {
  if (node.isEqualNode(fresh)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.data = fresh.data;
    return;
  }
  updateAttributes(node, fresh);
  updateChildren(node, fresh);
}

function updateAttributes(node, fresh) {
  for (const { name } of [...node.attributes]) if (!fresh.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Children with an id are found by it; others in their order.
function updateChildren(node, fresh) {
  const byId = new Map([...node.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = node.firstChild;
  for (const child of [...fresh.childNodes]) {
    const match = child.id ? byId.get(child.id) : place;
    if (!isLike(match, child)) node.insertBefore(child, place);
    else {
      if (match === place) place = place.nextSibling;
      else node.insertBefore(match, place);
      update(match, child);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function isLike(node, child) {
  return node?.nodeName === child.nodeName && (node.id ?? "") === (child.id ?? "");
}
