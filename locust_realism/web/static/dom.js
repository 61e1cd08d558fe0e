// Elements built from text nodes only: no name of a request is ever parsed as HTML.

/**
 * Build an element with attributes and children; strings become text nodes, null and false are left out.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes] `on...` functions are listeners; null and false are left out
 * @param {...(Node | string | null | false | undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Write a text only if it changed, so that selections and screen readers are not disturbed. */
export function setText(/** @type {Element} */ element, /** @type {string} */ text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element without moving the page. */
export function setHidden(/** @type {HTMLElement} */ element, /** @type {boolean} */ hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

/** Replace the children if their description changed. */
export function setChildren(/** @type {HTMLElement} */ element, /** @type {string} */ signature,
                            /** @type {() => (Node | string)[]} */ build) {
  if (element.dataset.signature === signature) return;
  element.dataset.signature = signature;
  element.replaceChildren(...build());
}

/** Hand a text or an image to the browser as a file. */
export function saveFile(/** @type {string} */ name, /** @type {Blob | string} */ content) {
  const url = typeof content === "string" ? content : URL.createObjectURL(content);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  if (typeof content !== "string") setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

let lastId = 0;

/** Return an id that is unique in the page. */
export function newId() {
  lastId += 1;
  return `lr-${lastId}`;
}
