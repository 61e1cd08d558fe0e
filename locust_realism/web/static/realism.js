// Entry point in Locust's page: one section below its tabs, visible while a tab of ours is selected.
// Locust's own elements never change; after any failure here, its page still works.

import { h, setHidden, setText } from "./dom.js";
import { formatDuration, formatNumber } from "./format.js";
import { installFormGroups } from "./form.js";
import { installHints } from "./hints.js";
import { createClient } from "./client.js";
import { TABS } from "./tabs.js";
import { isDark, themeOf } from "./theme.js";

const HOME = new URL("../", import.meta.url);
const FAST_MS = 2000;
const SLOW_MS = 5000;
const SOON_MS = 600;

/** @type {Promise<any> | null} */
let library = null;

/** Load ECharts with the first chart; null if it cannot be loaded. */
function loadECharts() {
  library ??= new Promise((resolve) => {
    const script = h("script", { src: new URL("static/vendor/echarts/echarts.common.min.js", HOME).href });
    script.addEventListener("load", () => resolve(/** @type {any} */ (window).echarts ?? null));
    script.addEventListener("error", () => { library = null; resolve(null); });
    document.head.append(script);
  });
  return library;
}

function start() {
  const page = document.getElementById("root");
  if (!page || document.getElementById("locust-realism")) return;
  const sheet = h("link", { rel: "stylesheet", href: new URL("static/realism.css", HOME).href });
  document.head.append(sheet);

  let dark = isDark(document.body);
  /** @type {(() => void)[]} */
  const themed = [];
  const context = {
    live: true, window: "run", echarts: loadECharts, theme: () => themeOf(dark),
    docs: (/** @type {string} */ key) => new URL(`help#${key}`, HOME).href,
    onTheme: (/** @type {() => void} */ listener) => { themed.push(listener); },
    setWindow: (/** @type {string} */ text) => { context.window = text; poll(); },
  };
  const client = createClient(HOME);
  const notice = h("p", { class: "lr-notice", role: "status", hidden: true });
  const age = h("p", { class: "lr-age" });
  const body = h("div");
  const waitingText = h("p", { class: "lr-empty" }, "The figures are being computed.");
  const section = h("section", { id: "locust-realism", class: "lr", hidden: true, role: "tabpanel" }, notice, body, age);
  installHints(section);

  /** @type {Map<string, any>} */
  const views = new Map();
  /** @type {string | null} */
  let active = null;
  let timer = 0;
  let pollNumber = 0;
  let soon = false;
  let chosen = false;

  function activeTitle() {
    return page?.querySelector('[role="tab"][aria-selected="true"]')?.textContent?.trim() ?? null;
  }

  function follow() {
    const main = page?.querySelector("main");
    // Stay below the tabs: Locust adds them after the start form of the loaded page.
    if (main && main.lastElementChild !== section) main.append(section);
    const container = page?.querySelector('[role="tablist"]')?.closest(".MuiContainer-root");
    if (container && section.className !== `lr ${container.className}`) section.className = `lr ${container.className}`;
    markTabs(page);
    const title = activeTitle();
    const next = title && TABS.some((tab) => tab.title === title) ? title : null;
    if (next !== active) show(next);
    const now = isDark(document.body);
    if (now !== dark || section.dataset.theme !== (dark ? "dark" : "light")) {
      dark = now;
      section.dataset.theme = dark ? "dark" : "light";
      themed.forEach((listener) => listener());
    }
    installFormGroups(page);
  }

  function show(/** @type {string | null} */ title) {
    active = title;
    chosen = true;
    soon = false;
    setHidden(section, !title);
    clearTimeout(timer);
    if (!title) return;
    section.setAttribute("aria-label", title);
    if (!views.has(title)) {
      const tab = TABS.find((one) => one.title === title);
      const view = tab?.create(context);
      views.set(title, { ...tab, view, filled: false });
    }
    body.replaceChildren(views.get(title).filled ? views.get(title).view.root : waitingText);
    poll();
  }

  async function poll() {
    clearTimeout(timer);
    if (!active || document.hidden) return;
    const number = ++pollNumber;
    const tab = views.get(active);
    const answer = await client.fetchAll(tab.needs, context.window);
    if (number !== pollNumber) return;
    showNotice(answer.problem);
    if (!answer.problem) {
      try {
        if (!tab.filled) body.replaceChildren(tab.view.root);
        tab.filled = true;
        tab.view.update(answer.data);
      } catch (error) {
        showNotice("This tab could not be drawn; Locust and the recording go on. The browser's console has the details.");
        console.warn("locust_realism", error);
      }
      showAge(answer.data);
    }
    const over = answer.problem || isOver(answer.data);
    // The server answers with its last figures and computes newer ones: fetch those soon, once.
    // The same holds for a newly selected tab, even after the end of the test.
    soon = !answer.problem && !soon && (chosen || (!over && (answer.data.summary?.age_s ?? 0) > 1));
    chosen = false;
    timer = window.setTimeout(poll, soon ? SOON_MS : over ? SLOW_MS : FAST_MS);
  }

  function showNotice(/** @type {string | null} */ problem) {
    setText(notice, problem ?? "");
    setHidden(notice, !problem);
  }

  function showAge(/** @type {any} */ data) {
    const { summary, status } = data;
    const parts = [];
    if (summary && typeof summary.age_s === "number") parts.push(`Figures computed ${summary.age_s < 1 ? "just now" : `${formatDuration(summary.age_s)} ago`}`);
    if (summary && summary.tables_age_s > 0) parts.push(`tables, read from the recording, ${formatDuration(summary.tables_age_s)} ago`);
    if (status) {
      parts.push(`${formatNumber(status.rows, 0)} requests recorded`);
      if (status.lost) parts.push(`${formatNumber(status.lost, 0)} lost`);
      showNotice([...(status.errors ?? []), ...(status.warnings ?? [])].join(" ") || null);
    }
    setText(age, parts.length ? `${parts.join(" · ")}.` : "");
  }

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      try { follow(); } catch (error) { console.warn("locust_realism", error); }
    });
  }).observe(page, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-selected", "class"] });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  // The widths are final once the style is loaded; they change with the window.
  sheet.addEventListener("load", () => markTabs(page));
  window.addEventListener("resize", () => markTabs(page));
  follow();
}

/**
 * Make our tabs narrower than Locust's, so that all tabs fit and the scroll buttons take no room. Without the mark
 * the strip keeps its buttons, since the tabs do not fit beside them.
 * @param {Element | null} page
 */
function markTabs(page) {
  const list = page?.querySelector('[role="tablist"]');
  const strip = list?.closest(".MuiTabs-root");
  if (!list || !strip) return;
  let needed = 0;
  for (const tab of /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll('[role="tab"]'))) {
    const ours = TABS.some(({ title }) => title === tab.textContent?.trim());
    if (ours && !("lrTab" in tab.dataset)) tab.dataset.lrTab = "";
    needed += tab.offsetWidth;
  }
  const fits = needed <= strip.clientWidth;
  if (fits !== strip.hasAttribute("data-lr-fits")) strip.toggleAttribute("data-lr-fits", fits);
}

function isOver(/** @type {any} */ data) {
  const state = data.summary?.state ?? data.status?.state ?? data.generator?.state ?? data.population?.state;
  return state === "stopped" || state === "ready";
}

try { start(); } catch (error) { console.warn("locust_realism", error); }
