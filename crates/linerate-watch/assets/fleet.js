"use strict";
// A fleet: the page is whole as it came. This puts into its places what the file says now, and leads through the matrix
// by arrow keys.
(() => {
  const { at, say, listen } = web;
  const main = document.querySelector("main");
  const { id, pair } = main.dataset;
  let look = Number(main.dataset.look);
  let newest = look;
  let asking = false;
  const reload = () => location.reload();

  const places = [...document.querySelectorAll("[data-part]")];
  const put = ([of, at, parts]) => {
    look = at;
    if (of !== id || parts.length !== places.length) {
      // Another file, or the first figure of this one.
      newest = look;
      return reload();
    }
    places.forEach((place, i) => {
      const [className, text, title] = parts[i];
      if (place.className !== className) place.className = className;
      if (place.textContent !== text) place.textContent = text;
      if (place.title !== title) place.title = title;
    });
  };
  // One at a time: on a slow way the newest is asked for when the last has come.
  const ask = async () => {
    if (asking) return;
    asking = true;
    try {
      do put(await (await fetch("places")).json()); while (look < newest);
    } catch {
      say("no connection; this page tries again", "bad");
    }
    asking = false;
  };

  let lost = false;
  const state = at("state").textContent;
  const stateClass = at("state").className;
  listen(
    () => {
      if (pair === undefined) return ask();
      // What changed while nobody listened is not known.
      if (lost) reload();
      say(state, stateClass);
    },
    {},
    {
      fleet: ([number, pairs]) => {
        if (number <= look) return;
        newest = Math.max(newest, number);
        if (pair === undefined) ask();
        else if (number > look + 1 || pairs.includes(Number(pair))) reload();
        else look = number;
      },
    },
    () => {},
  ).addEventListener("error", () => { lost = true; });

  const rows = [...document.querySelectorAll(".heat tbody tr")].map((row) => [...row.cells].map((cell) => cell.querySelector("a")));
  const cells = rows.flat().filter(Boolean);
  // One of them is reached by the tab key, the others from there.
  let reached = cells[0];
  const reach = (cell) => {
    reached.tabIndex = -1;
    cell.tabIndex = 0;
    reached = cell;
  };
  cells.forEach((cell) => { cell.tabIndex = cell === reached ? 0 : -1; });
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.querySelector(".heat")?.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    let row = rows.findIndex((row) => row.includes(event.target));
    if (!step || row < 0) return;
    event.preventDefault();
    let column = rows[row].indexOf(event.target);
    do {
      row += step[0];
      column += step[1];
      if (rows[row]?.[column]) {
        reach(rows[row][column]);
        return rows[row][column].focus();
      }
    } while (row >= 0 && row < rows.length && column >= 0 && column < rows[row].length);
  });
})();
