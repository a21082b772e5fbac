// Makes the page's figures zoomable when they come into sight, and opens runs. Everything that is
// not ours reaches the page as text, never as markup.
"use strict";
(() => {
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const night = matchMedia("(prefers-color-scheme: dark)");
  let all;
  const given = () => (all ??= data("figures"));
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();

  // Numbers as the drawings have them.
  const PREFIXES = {
    bit_rate: [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]],
    count: [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]],
    whole: [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]],
    bytes: [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]],
    seconds: [[1e-9, "ns"], [1e-6, "µs"], [1e-3, "ms"], [1, "s"]],
    percent: [[1, "%"]],
  };
  const ENDS = { bit_rate: "bit/s" };
  const nines = (value) => {
    if (value === 0) return "0 %";
    const share = 100 * (1 - 10 ** -value);
    return share.toFixed(Math.max(0, Math.ceil(value - 2))) + " %";
  };
  const word = (value, unit, top, digits) => {
    if (value === null || value === undefined || !isFinite(value)) return "–";
    if (unit === "nines") return nines(value);
    if (value === 0 && unit !== "percent") return "0";
    // 100 % only where it was all, 0 % only where it was nothing; a tick stands where it says.
    if (unit === "percent" && digits < 6 && value > 0 && value < 100) {
      if (value > 99.99) return ">99.99 %";
      if (value < 0.0001) return "<0.0001 %";
    }
    const list = PREFIXES[unit];
    let chosen = list[0];
    // Of datagrams every byte counts.
    const least = unit === "bytes" && Math.abs(top) < 1e4 ? 10 : 0.999999;
    for (const one of list) if (Math.abs(top) >= one[0] * least) chosen = one;
    const text = String(Number((value / chosen[0]).toPrecision(digits)));
    const name = digits > 5 ? chosen[1] : chosen[1] + (ENDS[unit] ?? "");
    return name ? text + " " + name : text;
  };
  const tick = (unit, log) => (u, splits) => {
    const top = Math.max(...splits.map(Math.abs));
    return splits.map((v) => (v === null ? "" : word(v, unit, log ? v : top, 6)));
  };

  const range = (axis) => (u, low, high) => {
    if (low === null || !isFinite(low)) return axis.log ? [1, 10] : [0, 1];
    if (axis.log) return uPlot.rangeLog(low, high, 10, false);
    if (axis.zero) low = Math.min(0, low);
    if (axis.top) high = Math.max(axis.top, high);
    if (axis.cap > low) high = Math.min(axis.cap, high);
    if (axis.zero && low === 0 && high === 0) return [0, 1];
    if (low === high) return [low - Math.abs(low) * 0.01 - 1e-9, high + Math.abs(high) * 0.01 + 1e-9];
    const room = (high - low) * 0.04;
    return [axis.zero ? low : low - room, axis.top === high ? high : high + room];
  };

  // A sign of its own for each colour, as the drawings have it.
  const sign = (ctx, colour, x, y, scale) => {
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(scale, scale);
    ctx.fill(new Path2D("M0 0" + given().signs[colour]));
    ctx.restore();
  };

  // The line and sign of a series, as the drawings have them in their legends.
  const marker = (s, colour) => {
    const part = (name, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      return element;
    };
    const svg = part("svg", { width: 26, height: 10, viewBox: "0 0 26 10", "aria-hidden": "true", class: "sign" });
    const dash = s.kind === "ideal" ? "6 5" : s.kind === "thin" ? "2 4" : "none";
    if (s.kind !== "dots") {
      svg.append(part("path", { d: "M0 5h26", stroke: colour, "stroke-width": s.kind === "line" ? 2 : 1.2, "stroke-dasharray": dash }));
    }
    if (s.kind === "line" || s.kind === "dots") svg.append(part("path", { d: "M13 5" + given().signs[s.colour], fill: colour }));
    return svg;
  };

  const draw = (host, spec, width) => {
    const ratio = devicePixelRatio || 1;
    const has = (right) => spec.series.some((s) => s.right === right);
    const axis = (a, scale, side, grid) => ({
      scale, side, label: a.label, stroke: colour("soft"), labelSize: 20, labelFont: "12px system-ui,sans-serif",
      font: "12px system-ui,sans-serif", size: scale === "x" ? 34 : 62,
      grid: { show: grid, stroke: colour("line"), width: 1 }, ticks: { show: false },
      values: tick(a.unit, a.log),
      ...(a.unit === "whole" && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6, 1e7] }),
      ...(a.unit === "nines" && { splits: (u, i, low, high) => {
        const list = [];
        for (let n = Math.ceil(low); n <= high; n++) list.push(n);
        return list;
      } }),
    });
    const scale = (a) => ({ time: false, distr: a.log ? 3 : 1, range: range(a) });
    const options = {
      width, height: Math.max(250, Math.min(340, width * 0.4)),
      cursor: { drag: { x: true, y: true, uni: 30 }, focus: { prox: 24 }, points: { size: 8 } },
      focus: { alpha: 0.4 },
      scales: { x: scale(spec.x), left: scale(spec.left), ...(spec.right && { right: scale(spec.right) }) },
      axes: [axis(spec.x, "x", 2, true)],
      series: [{ label: spec.x.label.length > 24 ? "at" : spec.x.label, value: (u, v) => (v === null ? "–" : word(v, spec.x.unit, v, 5)) }],
      hooks: {
        drawClear: [(u) => {
          const ctx = u.ctx;
          spec.bands.forEach(([from, to, label], i) => {
            const x0 = Math.max(u.bbox.left, u.valToPos(from, "x", true));
            const x1 = Math.min(u.bbox.left + u.bbox.width, u.valToPos(to, "x", true));
            if (!(x1 > x0)) return;
            ctx.save();
            if (i % 2) {
              ctx.globalAlpha = 0.45;
              ctx.fillStyle = colour("box");
              ctx.fillRect(x0, u.bbox.top, x1 - x0, u.bbox.height);
              ctx.globalAlpha = 1;
            }
            ctx.fillStyle = colour("soft");
            ctx.font = 12 * ratio + "px system-ui,sans-serif";
            ctx.textAlign = "center";
            if (ctx.measureText(label).width < x1 - x0) ctx.fillText(label, (x0 + x1) / 2, u.bbox.top - 4 * ratio);
            ctx.restore();
          });
        }],
        drawSeries: [(u, i) => {
          const s = spec.series[i - 1];
          if (!s || !u.series[i].show || !["line", "dots"].includes(s.kind)) return;
          const ctx = u.ctx;
          const y = s.right ? "right" : "left";
          const known = s.y.filter((v) => v !== null).length;
          ctx.save();
          ctx.beginPath();
          ctx.rect(u.bbox.left - 5, u.bbox.top - 5, u.bbox.width + 10, u.bbox.height + 10);
          ctx.clip();
          ctx.fillStyle = ctx.strokeStyle = colour("b" + s.colour);
          ctx.lineWidth = 1.2 * ratio;
          s.y.forEach((v, n) => {
            if (v === null) return;
            const px = u.valToPos(spec.at[n], "x", true);
            const half = s.spread && s.spread[n];
            if (half) {
              const a = u.valToPos(v - half, y, true), b = u.valToPos(v + half, y, true);
              ctx.beginPath();
              for (const e of [a, b]) { ctx.moveTo(px - 3 * ratio, e); ctx.lineTo(px + 3 * ratio, e); }
              ctx.moveTo(px, a);
              ctx.lineTo(px, b);
              ctx.stroke();
            }
            if (known <= 80 || s.kind === "dots") sign(ctx, s.colour, px, u.valToPos(v, y, true), 0.94 * ratio);
          });
          ctx.restore();
        }],
      },
    };
    if (has(false)) options.axes.push(axis(spec.left, "left", 3, true));
    if (spec.right && has(true)) options.axes.push(axis(spec.right, "right", 1, !has(false)));
    for (const s of spec.series) {
      const unit = (s.right ? spec.right : spec.left).unit;
      const stroke = s.kind === "ideal" ? colour("soft") : colour("b" + s.colour);
      options.series.push({
        label: s.label + (s.right ? " (right axis)" : ""), scale: s.right ? "right" : "left", stroke,
        width: s.kind === "line" ? 2 : s.kind === "dots" ? 0 : 1.2,
        dash: s.kind === "ideal" ? [6, 5] : s.kind === "thin" ? [2, 4] : undefined,
        paths: s.kind === "dots" ? () => null : undefined, points: { show: false },
        value: (u, v) => word(v, unit, v, 4),
      });
    }
    const plot = new uPlot(options, [spec.at, ...spec.series.map((s) => s.y)], host);
    plot.root.querySelectorAll(".u-legend .u-series").forEach((row, i) => {
      const box = row.querySelector(".u-marker");
      const s = spec.series[i - 1];
      if (box && s) box.replaceWith(marker(s, s.kind === "ideal" ? colour("soft") : colour("b" + s.colour)));
    });
    return plot;
  };

  const numbers = (spec) => {
    const details = make("details");
    details.append(make("summary", "Numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const box = make("div", undefined, "numbers scroll");
      const table = make("table");
      const head = table.createTHead().insertRow();
      for (const text of [spec.x.label, ...spec.series.map((s) => s.label)]) {
        const cell = make("th", text);
        cell.scope = "col";
        head.append(cell);
      }
      const body = table.createTBody();
      spec.at.slice(0, 2000).forEach((x, i) => {
        const row = body.insertRow();
        row.insertCell().textContent = word(x, spec.x.unit, x, 5);
        for (const s of spec.series) {
          row.insertCell().textContent = word(s.y[i], (s.right ? spec.right : spec.left).unit, s.y[i], 4);
        }
      });
      box.append(table);
      if (spec.at.length > 2000) box.append(make("p", spec.at.length - 2000 + " more rows are in the CSV report or the record."));
      details.append(box);
    });
    return details;
  };

  // Every chart that was drawn, so that it can follow the window, the theme and the printer.
  const drawn = new Map();
  const widths = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const one = drawn.get(entry.target);
      const width = Math.floor(entry.contentRect.width);
      if (one && width > 0 && Math.abs(width - one.plot.width) > 1) {
        one.plot.setSize({ width, height: one.plot.height });
      }
    }
  });
  const redraw = () => {
    for (const [host, one] of drawn) {
      const width = one.plot.width;
      one.plot.destroy();
      one.plot = draw(host, one.spec, width);
    }
  };
  night.addEventListener("change", redraw);

  const zoomable = (figure, spec) => {
    if (figure.querySelector(".plot")) return;
    const host = make("div", undefined, "plot");
    host.append(make("h4", spec.title));
    figure.prepend(host);
    const one = { spec: { ...spec, x: { ...spec.x } } };
    one.plot = draw(host, one.spec, Math.floor(host.clientWidth) || 640);
    drawn.set(host, one);
    widths.observe(host);
    const tools = make("div", undefined, "tools");
    const button = (text, title, act) => {
      const b = make("button", text);
      b.type = "button";
      b.title = title;
      b.setAttribute("aria-label", title + ": " + spec.title);
      b.addEventListener("click", act);
      tools.append(b);
    };
    const zoom = (factor) => () => {
      const x = one.plot.scales.x;
      const log = one.spec.x.log;
      const f = log ? Math.log : (v) => v, g = log ? Math.exp : (v) => v;
      const middle = (f(x.min) + f(x.max)) / 2, half = ((f(x.max) - f(x.min)) / 2) * factor;
      one.plot.setScale("x", { min: g(middle - half), max: g(middle + half) });
    };
    button("+", "Zoom in", zoom(0.5));
    button("−", "Zoom out", zoom(2));
    button("all", "Show all", () => one.plot.setData(one.plot.data));
    if (spec.x.unit !== "nines" && spec.at.every((x) => x > 0) && spec.at.length > 2) {
      button("log", "Logarithmic or linear", () => {
        one.spec.x.log = !one.spec.x.log;
        const width = one.plot.width;
        one.plot.destroy();
        one.plot = draw(host, one.spec, width);
      });
    }
    figure.append(tools, numbers(spec));
  };

  // Only what is seen is drawn, and only when nothing else is to do.
  const idle = window.requestIdleCallback
    ? (f) => requestIdleCallback(f, { timeout: 300 })
    : (f) => setTimeout(f, 1);
  const specs = new WeakMap();
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      idle(() => zoomable(entry.target, specs.get(entry.target) ?? given().figures[entry.target.dataset.figure]));
    }
  }, { rootMargin: "100px" });
  for (const figure of document.querySelectorAll("figure.chart")) seen.observe(figure);

  // Runs.
  let lots;
  const unpacked = new Map();
  const lot = (number) => {
    if (!unpacked.has(number)) {
      const bytes = Uint8Array.from(atob(lots.lots[number]), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
      unpacked.set(number, new Response(stream).json());
    }
    return unpacked.get(number);
  };
  const list = (pairs) => {
    const dl = make("dl");
    for (const [label, text] of pairs) dl.append(make("dt", label), make("dd", text));
    return dl;
  };
  const show = async (button) => {
    if (button.getAttribute("aria-expanded") === "true") return;
    button.setAttribute("aria-expanded", "true");
    lots ??= data("runs");
    const number = Number(button.dataset.run);
    const cell = make("td", undefined, "open");
    cell.colSpan = button.closest("tr").cells.length;
    const row = make("tr");
    row.append(cell);
    button.closest("tr").after(row);
    try {
      const run = (await lot(Math.floor(number / lots.together)))[number % lots.together];
      cell.append(make("p", run.summary, "head"));
      for (const text of run.words) cell.append(make("p", text));
      for (const spec of run.charts) {
        const figure = make("figure", undefined, "drawn");
        figure.append(make("figcaption", spec.alt));
        specs.set(figure, spec);
        cell.append(figure);
        seen.observe(figure);
      }
      cell.append(list(run.facts));
      const settings = make("details");
      settings.append(make("summary", "Settings of both ends"), list(run.settings));
      const hosts = make("p", "Hosts: ", "note");
      run.hosts.forEach(([index, name], i) => {
        const link = make("a", name);
        link.href = "#host-" + index;
        hosts.append(i ? ", " : "", link);
      });
      const code = make("pre");
      code.append(make("code", run.command));
      cell.append(settings, hosts, make("p", "To repeat it:", "note"), code);
    } catch (error) {
      cell.append(make("p", "This run cannot be shown by this browser (" + error + "); the CSV report has its numbers."));
    }
  };
  const hide = (button) => {
    button.setAttribute("aria-expanded", "false");
    const row = button.closest("tr").nextElementSibling;
    for (const host of row.querySelectorAll(".plot")) {
      drawn.get(host)?.plot.destroy();
      drawn.delete(host);
    }
    row.remove();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-run]");
    if (button) (button.getAttribute("aria-expanded") === "true" ? hide : show)(button);
  });
  const openAll = async () => {
    for (const button of document.querySelectorAll("button[data-run]")) await show(button);
  };
  document.getElementById("open-all")?.addEventListener("click", openAll);
  const follow = () => {
    const run = /^#run-(\d+)$/.exec(location.hash);
    const button = run && document.querySelector('button[data-run="' + (Number(run[1]) - 1) + '"]');
    if (button) show(button).then(() => button.scrollIntoView());
    if (location.hash === "#all") openAll();
  };
  addEventListener("hashchange", follow);

  // Flame graphs: a frame that is pressed takes the whole width, with what stands on it; the lowest one is all again.
  for (const figure of document.querySelectorAll("figure.flame")) {
    const frames = [...figure.querySelectorAll("g.frame")].filter((frame) => frame.querySelector("title"));
    const boxes = frames.map((frame) => {
      const [rect, text] = [frame.querySelector("rect"), frame.querySelector("text")];
      const of = (name) => Number(rect.getAttribute(name));
      const name = frame.querySelector("title").textContent.split(": ").slice(0, -1).join(": ");
      return { frame, rect, text, name, x: of("x"), y: of("y"), width: of("width") };
    });
    const all = boxes[0];
    if (!all) continue;
    const zoom = (on) => {
      const scale = all.width / on.width;
      for (const box of boxes) {
        const width = Math.min(box.width * scale, all.width);
        const x = Math.max(all.x, all.x + (box.x - on.x) * scale);
        const middle = box.x + box.width / 2;
        const below = box.y > on.y && box.x <= on.x + 0.1 && box.x + box.width >= on.x + on.width - 0.1;
        const seen = below || (box.y <= on.y && middle >= on.x && middle <= on.x + on.width);
        box.frame.setAttribute("visibility", seen ? "visible" : "hidden");
        if (!seen) continue;
        box.rect.setAttribute("x", below ? all.x : x);
        box.rect.setAttribute("width", below ? all.width : width);
        let text = box.text;
        if (!text && width > 28) {
          text = document.createElementNS("http://www.w3.org/2000/svg", "text");
          text.setAttribute("y", box.y + 12);
          box.frame.append((box.text = text));
        }
        if (!text) continue;
        const letters = Math.floor(((below ? all.width : width) - 6) / 6.2);
        text.setAttribute("x", (below ? all.x : x) + 3);
        text.textContent = letters < 3 ? "" : box.name.length > letters ? box.name.slice(0, letters - 1) + "…" : box.name;
      }
    };
    figure.classList.add("ready");
    figure.addEventListener("click", (event) => {
      const frame = event.target.closest?.("g.frame");
      const box = boxes.find((box) => box.frame === frame);
      if (box) zoom(box);
    });
  }
  follow();
})();
