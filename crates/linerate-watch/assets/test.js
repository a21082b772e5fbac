"use strict";
// A test: rates, loss by its place, cores of both hosts, and the answer at the end.
(() => {
  const { at, make, known, rate, count, seconds, percent, scaled, fill, say, later, listen } = web;
  const MOST_CORES = 64;
  const LAST_ROWS = 20;
  const MOST_ROWS = 1200;
  let record, rows, cores, losses, over;

  // The directions of a row, forward first.
  const flows = (row) => {
    const both = ["forward", "reverse"].filter((name) => row[name]).map((name) => ({ name: name + ": ", ...row[name] }));
    return row.sender || row.receiver ? [...both, { name: "", sender: row.sender, receiver: row.receiver }] : both;
  };
  const plan = () => record.agreed ?? record.asked;

  // Curves: label, colour, dashes, values.
  const curves = () => {
    if (rows.some((row) => row.rr)) {
      return [{ label: "transactions/s", colour: "b0", unit: "/s", y: rows.map((row) => row.rr?.transactions_per_second) }];
    }
    const shape = flows(rows.at(-1) ?? {});
    return shape.flatMap((flow, i) => {
      const of = (end) => rows.map((row) => flows(row)[i]?.[end]?.bits_per_second);
      const one = (label, colour, end, dash) => ({ label: flow.name + label, colour, dash, unit: "bit/s", y: of(end) });
      return [one("received", i ? "b2" : "b0", "receiver"), one("sent", i ? "b3" : "b1", "sender", [6, 4])]
        .filter((curve) => curve.y.some(known));
    });
  };

  let plot, shape;
  const chart = () => {
    const list = curves();
    if (list.length === 0) return;
    const data = [rows.map((row) => row.end_s), ...list.map((curve) => curve.y.map((y) => (known(y) ? y : null)))];
    const now = list.map((curve) => curve.label).join();
    if (plot && shape === now) return plot.setData(data);
    plot?.destroy();
    shape = now;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const font = "12px system-ui,sans-serif";
    const axis = { stroke: colour("soft"), font, ticks: { show: false }, grid: { stroke: colour("line"), width: 1 } };
    const unit = list[0].unit;
    const host = at("rates");
    plot = new uPlot({
      width: host.clientWidth || 640, height: 280,
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [
        { ...axis, size: 34, values: (u, all) => all.map((v) => Number(v.toFixed(3)) + " s") },
        { ...axis, size: 84, values: (u, all) => all.map((v) => (v === 0 ? "0" : scaled(v, unit))) },
      ],
      series: [
        { label: "until", value: (u, v) => (known(v) ? Number(v.toFixed(3)) + " s" : "–") },
        ...list.map((curve) => ({
          label: curve.label, stroke: colour(curve.colour), width: 2, dash: curve.dash, points: { show: rows.length < 3 },
          value: (u, v) => scaled(v, unit),
        })),
      ],
    }, data, host);
  };
  const anew = () => { shape = undefined; if (rows?.length) chart(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
  for (const [when, isPaper] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(when, () => { document.documentElement.classList.toggle("paper", isPaper); anew(); });
  }
  new ResizeObserver(() => plot?.setSize({ width: at("rates").clientWidth || 640, height: 280 })).observe(at("rates"));

  const now = () => {
    const last = rows.at(-1);
    const figure = (label, text) => {
      const box = make("div");
      box.append(make("b", text), make("span", label));
      return box;
    };
    const figures = last.rr
      ? [
          figure("transactions/s", count(Math.round(last.rr.transactions_per_second))),
          figure("latency, median", seconds(last.rr.latency_s?.p50)),
          figure("latency, 99 %", seconds(last.rr.latency_s?.p99)),
        ]
      : flows(last).flatMap(({ name, sender, receiver }) => [
          figure(name + "received", rate(receiver?.bits_per_second)),
          figure(name + "sent", rate(sender?.bits_per_second)),
          ...(known(receiver?.lost_ratio) ? [figure(name + "lost", percent(receiver.lost_ratio))] : []),
          ...(known(receiver?.jitter_s) ? [figure(name + "jitter", seconds(receiver.jitter_s))] : []),
          ...(known(receiver?.delay_variation_mean_s)
            ? [
                figure(name + "delay variation, mean", seconds(receiver.delay_variation_mean_s)),
                figure(name + "delay variation, most", seconds(receiver.delay_variation_max_s)),
              ]
            : []),
          ...(known(sender?.tcp?.rtt_s) ? [figure(name + "round trip", seconds(sender.tcp.rtt_s))] : []),
        ]);
    at("now").replaceChildren(...figures);
  };

  // By place, as the screen of --watch has it; a place of which nobody told is absent.
  const PLACES = [
    ["on the path", "lost_path", (flow) => flow.receiver],
    ["receive buffers", "dropped_receiver", (flow) => flow.receiver],
    ["one of these two", "unattributed", (flow) => flow.receiver],
    ["local send errors", "refused_locally", (flow) => flow.sender],
    ["retransmitted segments", "retransmits", (flow) => flow.sender?.tcp],
  ];
  const lost = () => {
    const directions = flows(over ? record.totals : rows.at(-1) ?? {});
    // The record knows better than what was told: what came late was not lost.
    const places = PLACES.map(([name, key, end]) => (
      { name, sums: directions.map((flow, i) => (over ? end(flow) : losses[i])?.[key]) }
    ));
    const told = places.filter((place) => place.sums.some(known));
    at("losses").hidden = told.length === 0;
    fill(at("lost"), [["place", (row) => row.name, "text"],
      ...directions.map((flow, i) => [flow.name.replace(": ", "") || "datagrams, segments", (row) => count(row.sums[i])])], told);
  };

  // Cores on which data threads of an end ran: of the client the senders of forward, of the server the others.
  const threads = (end) => {
    const last = rows.at(-1) ?? {};
    if (last.rr) return [end === "client" ? last.rr.cpu?.core : last.rr.server_cpu?.core];
    return flows(last).map((flow) => {
      const reverse = flow.name ? flow.name.startsWith("reverse") : plan().direction === "reverse";
      return ((end === "client") !== reverse ? flow.sender : flow.receiver)?.cpu?.core;
    });
  };
  const bar = (core, marks) => {
    const line = make("div", undefined, "core");
    const bar = make("div", undefined, "bar");
    for (const part of ["user", "system", "softirq", "steal"]) {
      const piece = make("i", undefined, part);
      piece.style.width = core[part + "_percent"] + "%";
      bar.append(piece);
    }
    const busy = Math.round(core.user_percent + core.system_percent + core.softirq_percent);
    line.append(make("span", core.core), make("b", marks), bar, make("span", busy + " %"));
    return line;
  };
  const busy = (core) => 100 - core.idle_percent - core.steal_percent;
  const hosts = () => {
    const same = record.server && record.server.boot_id && record.server.boot_id === record.client.boot_id;
    const parts = [];
    for (const end of same ? ["client"] : ["client", "server"]) {
      if (!cores[end]?.length) continue;
      const irq = record[end]?.nic?.irq_cores ?? [];
      const data = same ? [...threads("client"), ...threads("server")] : threads(end);
      const busiest = [...cores[end]].sort((a, b) => busy(b) - busy(a)).slice(0, MOST_CORES).sort((a, b) => a.core - b.core);
      const bars = make("div", undefined, "bars");
      for (const core of busiest) {
        bars.append(bar(core, (irq.includes(core.core) ? "I" : "") + (data.includes(core.core) ? "D" : "")));
      }
      const hidden = cores[end].length - busiest.length;
      parts.push(make("h3", (same ? "both ends" : end) + " " + (record[end]?.hostname ?? "")), bars);
      if (hidden > 0) parts.push(make("p", hidden + " less busy cores are not shown", "note"));
    }
    if (parts.length === 0) parts.push(make("p", "No host reports its cores.", "note"));
    at("cores").replaceChildren(...parts);
  };

  const table = () => {
    const of = (text) => (row) => flows(row).map(text).join(" / ");
    const columns = rows.at(-1).rr
      ? [
          ["transactions/s", (row) => count(Math.round(row.rr?.transactions_per_second))],
          ["median", (row) => seconds(row.rr?.latency_s?.p50)],
          ["99 %", (row) => seconds(row.rr?.latency_s?.p99)],
        ]
      : [
          ["received", of((flow) => rate(flow.receiver?.bits_per_second))],
          ["sent", of((flow) => rate(flow.sender?.bits_per_second))],
          ["lost", of((flow) => count(flow.receiver?.lost))],
          ["jitter", of((flow) => seconds(flow.receiver?.jitter_s))],
          ["delay variation, mean", of((flow) => seconds(flow.receiver?.delay_variation_mean_s))],
          ["delay variation, most", of((flow) => seconds(flow.receiver?.delay_variation_max_s))],
          ["retransmits", of((flow) => count(flow.sender?.tcp?.retransmits))],
        ];
    const time = ["seconds", (row) => Number(row.start_s.toFixed(3)) + "–" + Number(row.end_s.toFixed(3))];
    const last = rows.slice(-LAST_ROWS).reverse();
    // A column in which nothing is known is left out.
    const told = columns.filter(([, text]) => last.some((row) => /[^–\/ ]/.test(text(row))));
    fill(at("rows"), [time, ...told], last);
  };

  const draw = later(() => {
    if (!record) return;
    if (!over) {
      const last = rows.at(-1)?.end_s;
      const all = plan().duration_s;
      say(last === undefined ? "the test has begun" : "running: " + Number(last.toFixed(3)) + (all ? " of " + all : "") + " s");
    }
    hosts();
    if (rows.length === 0) return;
    chart();
    now();
    lost();
    table();
  });

  const words = (told) => {
    for (const [id, text] of Object.entries(told)) at(id).textContent = text;
    // The answer knows more.
    if (over) at("so-far").textContent = "";
    at("answer").hidden = at("answer").textContent === "";
    if (told.title) document.title = told.title;
  };
  const source = listen(
    () => {
      [record, rows, cores, losses, over] = [undefined, [], {}, [], false];
      at("so-far").textContent = "";
      say("waiting for the test");
    },
    {
      start: (line) => { record = line.record; },
      interval: (line) => { rows = [...rows.slice(1 - MOST_ROWS), line]; },
      end: (line) => {
        over = true;
        // Nothing more will come.
        source.close();
        record = line.record;
        if (record.intervals.length > 0) rows = record.intervals;
        at("so-far").textContent = "";
        say("the test is over: " + record.status, record.status === "complete" ? "good" : "bad");
        at("error").textContent = record.error ? record.error.what + ": " + record.error.why : "";
      },
    },
    { words, hosts: (told) => { cores = told; }, lost: (told) => { losses = told; } },
    draw,
  );
})();
