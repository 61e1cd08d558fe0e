// Client of the JSON routes; every failure becomes a sentence, never an exception.

const EXPIRED = "Your session has ended. Reload the page to log in again.";

/** @param {URL} home the address of our routes */
export function createClient(home) {
  /** @param {string} path */
  async function fetchJson(path) {
    const answer = await fetch(new URL(path, home), { redirect: "manual", credentials: "same-origin", cache: "no-store" });
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) throw new Error(EXPIRED);
    const text = await answer.text();
    let document;
    try { document = JSON.parse(text); } catch { throw new Error(`The figures could not be read (status ${answer.status}).`); }
    if (!answer.ok) throw new Error(`The figures could not be computed: ${document.error ?? answer.status}`);
    return document;
  }

  /**
   * Fetch the documents that a tab needs. `whole` is the summary of the whole run, fetched only if the window is another.
   * @param {string[]} needs @param {string} window
   * @returns {Promise<{data: any, problem: string | null}>}
   */
  async function fetchAll(needs, window) {
    const chosen = needs.includes("whole") ? window : "run";
    const paths = needs.filter((need) => need !== "whole")
      .map((need) => [need, need === "summary" ? `api/summary?window=${encodeURIComponent(chosen)}` : `api/${need}`]);
    if (needs.includes("whole") && window !== "run") paths.push(["whole", "api/summary?window=run"]);
    try {
      const found = await Promise.all(paths.map(async ([need, path]) => [need, await fetchJson(path)]));
      return { data: Object.fromEntries(found), problem: null };
    } catch (error) {
      const offline = error instanceof TypeError;
      const text = error instanceof Error ? error.message : String(error);
      return { data: {}, problem: offline ? "Locust does not answer. These are its last figures; they update when it is back." : text };
    }
  }
  return { fetchAll };
}
