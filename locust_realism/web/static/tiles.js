// Tiles: single figures side by side.

import { h, setHidden, setText } from "./dom.js";
import { term } from "./hints.js";

/**
 * @param {any} context
 * @param {{title: string, term?: string, value: (data: any) => string | null}[]} tiles a tile without a value is hidden
 */
export function createTiles(context, tiles) {
  const parts = tiles.map((tile) => {
    const value = h("dd");
    const root = h("div", { class: "lr-tile" }, h("dt", {}, tile.term ? term(context, tile.term, tile.title) : tile.title), value);
    return { tile, value, root };
  });
  const root = h("dl", { class: "lr-tiles" }, ...parts.map((part) => part.root));

  /** @param {any} data */
  function update(data) {
    let shown = 0;
    for (const { tile, value, root: box } of parts) {
      const text = tile.value(data);
      setHidden(box, text === null);
      if (text !== null) { setText(value, text); shown += 1; }
    }
    setHidden(root, !shown);
  }
  return { root, update };
}
