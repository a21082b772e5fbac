"""Runs linerate and reads what it measured.

import linerate

for event in linerate.udp("10.0.0.2", rate="1G"):
    print(event)
"""

from __future__ import annotations

from typing import Any

from ._errors import (
    Contradiction,
    Interrupted,
    LinerateError,
    ProgramMissing,
    TestFailed,
    Unreachable,
    UsageError,
)
from ._rows import Row, frame, row, rows
from ._run import Experiment, Run, TestRun, command_line, document
from ._types import (
    EndEvent,
    ErrorRecord,
    Event,
    HostFacts,
    Interval,
    IntervalEvent,
    RunRecord,
    StartEvent,
    Summary,
    Verdict,
)

__all__ = [
    "Contradiction",
    "EndEvent",
    "ErrorRecord",
    "Event",
    "Experiment",
    "HostFacts",
    "Interrupted",
    "Interval",
    "IntervalEvent",
    "LinerateError",
    "ProgramMissing",
    "Row",
    "Run",
    "RunRecord",
    "StartEvent",
    "Summary",
    "TestFailed",
    "TestRun",
    "Unreachable",
    "UsageError",
    "Verdict",
    "document",
    "frame",
    "row",
    "rows",
    "rr",
    "search",
    "sweep",
    "tcp",
    "udp",
]


def _test(verb: str, host: str | None, program: str | None, options: dict[str, Any]) -> TestRun[Event]:
    return TestRun(program, command_line(verb, (host,), options))


def udp(host: str | None = None, *, program: str | None = None, **options: Any) -> TestRun[Event]:
    """Datagrams to `host`, or on this machine alone with `local=True`; options as of `linerate udp --help`."""
    return _test("udp", host, program, options)


def tcp(host: str | None = None, *, program: str | None = None, **options: Any) -> TestRun[Event]:
    """A byte stream to `host`, or on this machine alone with `local=True`; options as of `linerate tcp --help`."""
    return _test("tcp", host, program, options)


def rr(host: str | None = None, *, program: str | None = None, **options: Any) -> TestRun[Event]:
    """Requests and responses; options as of `linerate rr --help`."""
    return _test("rr", host, program, options)


def sweep(host: str | None = None, *, program: str | None = None, **options: Any) -> Experiment:
    """Offered rates one after the other; options as of `linerate sweep --help`."""
    return Experiment(program, command_line("sweep", (host,), options))


def search(host: str | None = None, *, program: str | None = None, **options: Any) -> Experiment:
    """The highest rate that a path carries; options as of `linerate search --help`."""
    return Experiment(program, command_line("search", (host,), options))
