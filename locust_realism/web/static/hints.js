// Terms with their explanation on hover or focus, and a link to the docs.

import { h, newId, setText } from "./dom.js";
import { TERMS } from "./terms.js";

/**
 * Build a term: a link to the docs with its explanation on hover and focus.
 * @param {{docs: (key: string) => string}} context
 * @param {string} key of TERMS @param {string} [label] other words for it
 */
export function term(context, key, label) {
  const entry = TERMS[key];
  const href = context.docs(key);
  const outside = !href.startsWith("#");
  return h("a", {
    class: "lr-term", href, "data-term": key, "aria-description": entry.text,
    target: outside && "_blank", rel: outside && "noopener",
  }, label ?? entry.title);
}

/**
 * Install one tooltip for all terms inside `root`; it stays while the pointer is on it, Escape closes it.
 * @param {HTMLElement} root
 */
export function installHints(root) {
  const text = h("span");
  const tip = h("div", { class: "lr-tip", role: "tooltip", id: newId(), hidden: true }, text,
    h("span", { class: "lr-tip-more" }, "Click the term for more."));
  root.append(tip);
  let closing = 0;
  const hide = () => { tip.hidden = true; };
  const hideSoon = () => { clearTimeout(closing); closing = window.setTimeout(hide, 150); };
  const show = (/** @type {Event} */ event) => {
    const target = event.target instanceof Element ? event.target.closest(".lr-term") : null;
    if (!(target instanceof HTMLElement)) return;
    clearTimeout(closing);
    setText(text, TERMS[target.dataset.term ?? ""]?.text ?? "");
    tip.hidden = false;
    place(tip, target.getBoundingClientRect());
  };
  root.addEventListener("mouseover", show);
  root.addEventListener("focusin", show);
  root.addEventListener("mouseout", hideSoon);
  root.addEventListener("focusout", hideSoon);
  tip.addEventListener("mouseenter", () => clearTimeout(closing));
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  window.addEventListener("scroll", hide, { capture: true, passive: true });
}

/** Place the tooltip below the term, or above it if there is no room. */
function place(/** @type {HTMLElement} */ tip, /** @type {DOMRect} */ anchor) {
  const width = tip.offsetWidth;
  const left = Math.max(8, Math.min(anchor.left, window.innerWidth - width - 8));
  const below = anchor.bottom + 6;
  const top = below + tip.offsetHeight > window.innerHeight - 8 ? anchor.top - tip.offsetHeight - 6 : below;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}
