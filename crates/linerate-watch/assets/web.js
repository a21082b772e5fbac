"use strict";
// What both pages share. Everything that is not ours reaches a page as text, never as markup.
const web = (() => {
  const at = (id) => document.getElementById(id);
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const known = (value) => value !== null && value !== undefined && isFinite(value);

  // Numbers as the reports have them; what is not known is no 0.
  const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const scaled = (value, unit) => {
    if (!known(value)) return "–";
    const [size, prefix] = STEPS.find(([size]) => Math.abs(value) >= size * 0.99995) ?? [1, ""];
    return Number((value / size).toPrecision(4)) + " " + prefix + unit;
  };
  const rate = (value) => scaled(value, "bit/s");
  const count = (value) => (known(value) ? String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f") : "–");
  const seconds = (value) => {
    if (!known(value)) return "–";
    const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([size]) => value >= size) ?? [1e-9, "ns"];
    return Number((value / size).toPrecision(4)) + " " + unit;
  };
  // 100 % only where everything was lost, 0 % only where nothing was.
  const percent = (share) => {
    if (!known(share)) return "–";
    const of = 100 * share;
    if (of > 99.99 && of < 100) return ">99.99 %";
    if (of > 0 && of < 0.0001) return "<0.0001 %";
    return Number(of.toFixed(of < 0.1 ? 4 : of < 1 ? 3 : 2)) + " %";
  };

  // A table anew: columns are [head, text of a row, class].
  const fill = (table, columns, rows) => {
    const head = make("tr");
    for (const [name, , className] of columns) {
      const cell = make("th", name, className);
      cell.scope = "col";
      head.append(cell);
    }
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...rows.map((row) => {
      const line = make("tr");
      for (const [name, text, className] of columns) {
        const words = text(row) ?? "";
        const cell = make("td", words, className === "text" && words.length > 26 ? "long" : className);
        // Where there is no room for columns, each cell stands after its head, and those that say nothing are left out.
        cell.dataset.head = name;
        cell.classList.toggle("none", words === "" || words === "–");
        line.append(cell);
      }
      return line;
    }));
  };

  const say = (text, className = "") => {
    at("state").textContent = text;
    at("state").className = className;
  };

  // Draws when the browser does, however often something comes.
  const later = (draw) => {
    let asked = false;
    return () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; draw(); });
    };
  };

  // `begin` forgets all: whoever comes, or comes again, is told everything from the start. `on` has what is done with a
  // line of --json-lines by its `event`, `named` with what else is told by its name.
  const listen = (begin, on, named, draw) => {
    const source = new EventSource("events");
    const told = (act) => (message) => {
      act?.(JSON.parse(message.data));
      draw();
    };
    source.addEventListener("open", begin);
    source.addEventListener("error", () => {
      const again = source.readyState !== EventSource.CLOSED;
      say(again ? "no connection; this page tries again" : "no events: too many pages are open, or this address is of an earlier start of the program", "bad");
    });
    source.addEventListener("message", told((line) => on[line.event] ? on[line.event](line) : on.other?.(line)));
    for (const [name, act] of Object.entries(named)) source.addEventListener(name, told(act));
    return source;
  };
  return { at, make, known, rate, count, seconds, percent, scaled, fill, say, later, listen };
})();
