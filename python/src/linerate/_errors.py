"""What the program says when something fails, as exceptions."""

from __future__ import annotations

from typing import Any

from ._types import ErrorRecord, RunRecord


class LinerateError(Exception):
    """A test or command that did not come to its end.

    Attributes:
        kind: Stable name of the cause; `docs/errors.md` lists all.
        what: What was tried.
        why: Why it failed.
        hints: What to try.
        exit_code: The program's.
        record: What was measured until then, if a test got as far.
    """

    def __init__(
        self,
        what: str,
        why: str,
        *,
        kind: str = "",
        hints: list[str] | None = None,
        exit_code: int | None = None,
        record: RunRecord | None = None,
    ) -> None:
        self.what, self.why, self.kind = what, why, kind
        self.hints = hints or []
        self.exit_code, self.record = exit_code, record
        super().__init__("\n".join([f"{what}: {why}", *(f"hint: {hint}" for hint in self.hints)]))


class TestFailed(LinerateError):
    """The test failed or the server was lost; what was measured is in `record`."""

    # Not a test of pytest's.
    __test__ = False


class UsageError(LinerateError):
    """An option or number that cannot be used; nothing was sent."""


class Unreachable(LinerateError):
    """No server was reached, or it refused."""


class Contradiction(LinerateError):
    """The counts contradict each other: do not use the numbers."""


class Interrupted(LinerateError):
    """Ended by a signal; what was measured is in `record`."""


class ProgramMissing(LinerateError):
    """The program was not found, or what ran does not speak as it does."""


BY_EXIT_CODE: dict[int, type[LinerateError]] = {
    1: TestFailed,
    2: UsageError,
    3: Unreachable,
    4: Contradiction,
    130: Interrupted,
}


def of_record(error: ErrorRecord, record: RunRecord | None) -> LinerateError:
    """The exception for an error that the program has put into words."""
    of = BY_EXIT_CODE.get(error["exit_code"], TestFailed)
    return of(
        error["what"],
        error["why"],
        kind=error["kind"],
        hints=list(error.get("hints") or []),
        exit_code=error["exit_code"],
        record=record,
    )


def of_end(
    program: str, code: int, said: str, last: Any = None, record: RunRecord | None = None
) -> LinerateError:
    """The exception for a program that ended without words a reader knows."""
    why = said.strip().splitlines()[-1] if said.strip() else f"it ended with exit code {code}"
    of = BY_EXIT_CODE.get(code, ProgramMissing)
    if record is not None:
        return of(f"not all that {program} was asked for was had", why, exit_code=code, record=record)
    hints = [f"{program} --version says what it is"]
    what = f"cannot read what {program} says" + (f" ({last!r})" if last is not None else "")
    return of(what, why, hints=hints, exit_code=code)
