"""Intervals of a record as flat rows and frames."""

from __future__ import annotations

from typing import Any

from ._types import Interval, IntervalEvent, RunRecord

Row = dict[str, int | float | str | bool | None]


def row(interval: Interval | IntervalEvent) -> Row:
    """Figures of an interval by the way to them, as `receiver.bits_per_second`; lists are left out."""
    flat: Row = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}" if prefix else key, inner)
        elif not isinstance(value, list):
            flat[prefix] = value

    add("", interval)
    flat.pop("event", None)
    return flat


def rows(record: RunRecord) -> list[Row]:
    """One flat row for each interval of a record. What was not measured is absent."""
    return [row(interval) for interval in record["intervals"]]


def frame(record: RunRecord) -> Any:
    """The intervals of a record as a `pandas.DataFrame`; what was not measured is NaN.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas  # type: ignore[import-untyped, unused-ignore]

    return pandas.DataFrame(rows(record))
