"use strict";
// A server: tests that run, tests that ran, who was refused and why, and what else happened.
(() => {
  const { at, rate, count, seconds, percent, known, fill, say, later, listen } = web;
  const MOST = 100;
  let running, ended, refused, other, doors;

  const time = (line) => {
    const at = new Date(line.time);
    return isNaN(at) ? line.time : at.toLocaleTimeString();
  };
  const who = (line) => line.peer + (line.key ? " (" + line.key + ")" : "");
  const WAYS = { forward: "forward", reverse: "reverse", both: "both ways" };
  const PROGRAMS = { native: "linerate", iperf2: "iperf 2" };
  const what = (test) => test.kind + " " + (WAYS[test.direction] ?? test.direction) + ", " + test.streams
    + (test.streams === 1 ? " stream" : " streams") + ", " + (PROGRAMS[test.dialect] ?? test.dialect);
  const asked = (test) => known(test.asked_bps) ? rate(test.asked_bps)
    : known(test.asked_per_second) ? count(test.asked_per_second) + "/s" : "no rate";
  // A test as it begins and as it ends.
  const name = (test) => [test.peer, test.id, test.dialect, test.kind].join(" ");
  const share = (got) => known(got?.lost) && got.expected > 0 ? percent(got.lost / got.expected) : "–";

  const RUNNING = [["since", time], ["who", who, "text"], ["what", what, "text"], ["asked of all streams", asked]];
  const ENDED = [
    ["at", time], ["who", who, "text"], ["what", what, "text"], ["outcome", (line) => line.outcome, "text"],
    ["time", (line) => seconds(line.seconds)], ["received", (line) => rate(line.received?.bits_per_second)],
    ["lost", (line) => share(line.received)], ["sent", (line) => rate(line.sent?.bits_per_second)],
    ["answered", (line) => count(line.answered)], ["why", (line) => line.why, "text"],
  ];
  const REFUSED = [
    ["at", time], ["who", (line) => (line.peer ? who(line) : line.network), "text"],
    ["ground", (line) => line.kind ?? line.count + " more", "text"], ["why", (line) => line.why, "text"],
    ["asked", (line) => (line.asked ? what(line.asked) : ""), "text"],
  ];
  const OTHER = [
    ["at", time], ["event", (line) => line.event.replaceAll("_", " "), "text"],
    ["who", (line) => (line.peer ? who(line) : ""), "text"], ["what", (line) => line.text ?? line.why, "text"],
  ];

  const draw = later(() => {
    at("listening").textContent = doors.join(" · ");
    say(running.size === 0 ? "no test runs" : running.size === 1 ? "one test runs" : running.size + " tests run", "good");
    for (const [id, columns, rows] of [
      ["running", RUNNING, [...running.values()]], ["ended", ENDED, ended], ["refused", REFUSED, refused], ["other", OTHER, other],
    ]) {
      fill(at(id), columns, rows);
      at(id).closest("section").hidden = rows.length === 0 && id !== "running";
    }
  });

  // The newest first.
  const put = (list, line) => {
    list.unshift(line);
    list.length = Math.min(list.length, MOST);
  };
  listen(
    () => {
      [running, ended, refused, other, doors] = [new Map(), [], [], [], []];
      draw();
    },
    {
      listening: (line) => {
        doors.push("listens on " + line.address + (line.dialect ? " for " + (PROGRAMS[line.dialect] ?? line.dialect) : ""));
      },
      sandboxed: () => {},
      started: (line) => { running.set(name(line), line); },
      ended: (line) => {
        running.delete(name(line));
        put(ended, line);
      },
      refused: (line) => put(refused, line),
      refused_more: (line) => put(refused, line),
      other: (line) => put(other, line),
    },
    {},
    draw,
  );
})();
