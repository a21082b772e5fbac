"""The program as a child: its lines as they come, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, cast

from ._errors import LinerateError, ProgramMissing, of_end, of_record
from ._types import ErrorRecord, RunRecord

if TYPE_CHECKING:
    # Before Python 3.11 it is another package's, which nobody needs for running this one.
    from typing_extensions import Self

# Both ends of a test end within their own limits; longer takes only what is stuck.
END_WITHIN_S = 10.0

EventT = TypeVar("EventT")
RunT = TypeVar("RunT", bound="Run[Any]")


def program_path(program: str | None) -> str:
    """Where the program is: as named, by the variable LINERATE, or on PATH."""
    named = program or os.environ.get("LINERATE") or "linerate"
    found = shutil.which(named)
    if found is None:
        raise ProgramMissing(
            f"cannot run {named}",
            "there is no such program",
            hints=["install linerate, or name it: program=, or the variable LINERATE"],
        )
    return found


def command_line(verb: str, words: tuple[object, ...], options: dict[str, Any]) -> list[str]:
    """Words and options as the program takes them; `_` stands for `-`."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.strip("_").replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                flags.append(flag)
            elif each is not None and each is not False:
                # One word, so that a value that begins with a dash is none of its own.
                flags.append(f"{flag}={each}")
    plain = [str(word) for word in words if word is not None]
    # What follows the two dashes is no option, whatever it begins with.
    dashed = next((at for at, word in enumerate(plain) if word.startswith("-")), len(plain))
    behind = ["--", *plain[dashed:]] if plain[dashed:] else []
    # Options are those of the last verb: `campaign run PLAN --json`.
    return [verb, *plain[:dashed], *flags, *behind]


def started(command: list[str], words: IO[str]) -> subprocess.Popen[str]:
    """The program as a child; its words go into a file, which never fills up as a pipe that nobody reads."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise ProgramMissing(f"cannot run {command[0]}", str(error)) from error


def stop(child: subprocess.Popen[str]) -> int:
    """Ends the program in order if it still runs; its exit code."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        # Nobody reads any more, and a full pipe would keep it from hearing the signal.
        if child.stdout is not None:
            child.stdout.close()
        try:
            child.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
    code = child.wait()
    if child.stdout is not None:
        child.stdout.close()
    return code


def result_of(last: dict[str, Any]) -> dict[str, Any] | None:
    """What the last line holds: a test's record, or the document of a sweep or (by its own name) a search."""
    for key in ("record", "document", "search"):
        if key in last:
            return cast("dict[str, Any]", last[key])
    return None


class Run(Generic[EventT]):
    """One run of the program: its events as they happen, then its result.

    Iterating waits for each event. Leaving early (`break` out of a `with` block, `close`) interrupts
    the test as Ctrl-C does, so that both ends stop in order.
    """

    def __init__(self, program: str | None, line: list[str]) -> None:
        # Before the host, which two dashes may precede: what follows these is no option.
        self.command = [program_path(program), line[0], "--json-lines", *line[1:]]
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._last: dict[str, Any] | None = None
        self._failure: LinerateError | None = None
        try:
            self._child = started(self.command, self._said)
        except ProgramMissing:
            self._said.close()
            raise

    def _words(self) -> str:
        """What it said on standard error."""
        self._said.seek(0)
        return self._said.read()

    def _finish(self) -> None:
        """Raises what the program ended with."""
        code = self._child.wait()
        last = self._last or {}
        result = result_of(last)
        error = last.get("error") or (result or {}).get("error")
        if error is not None:
            raise of_record(error, cast("RunRecord | None", result))
        if code != 0 or last.get("event") != "end":
            raise of_end(self.command[0], code, self._words())

    def __iter__(self) -> Iterator[EventT]:
        return self

    def __next__(self) -> EventT:
        # No generator reads: its frame would hold this run, and one that nobody has any more would go on.
        if self._said.closed:
            raise StopIteration
        assert self._child.stdout is not None
        try:
            text = self._child.stdout.readline()
            if not text:
                self._finish()
                raise StopIteration
            try:
                event = json.loads(text)
            except ValueError:
                event = None
            if not isinstance(event, dict) or "event" not in event:
                raise of_end(self.command[0], stop(self._child), self._words(), text.strip()[:80])
        except BaseException as error:
            if isinstance(error, LinerateError):
                self._failure = error
            self.close()
            raise
        self._last = event
        return cast(EventT, event)

    def close(self) -> None:
        """Ends the run in order, if it is not over."""
        stop(self._child)
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Only what was made whole has a child.
        if hasattr(self, "_child"):
            self.close()

    def end(self) -> dict[str, Any]:
        """Waits for the end and gives the last event.

        Raises:
            LinerateError: what the program ended with, also when asked again.
        """
        for _ in self:
            pass
        if self._failure is not None:
            raise self._failure
        if self._last is None or self._last.get("event") != "end":
            raise LinerateError("there is no result", "the run was closed before its end")
        return self._last


class Experiment(Run[dict[str, Any]]):
    """A run of trials."""

    def result(self) -> dict[str, Any]:
        """Waits for the end and gives the whole document, as `--json` prints it.

        Raises:
            LinerateError: what the experiment ended with; `record` is the document as far as it went.
        """
        return cast("dict[str, Any]", result_of(self.end()))


class TestRun(Run[EventT]):
    """A run of one test."""

    # Not a test of pytest's.
    __test__ = False

    def result(self) -> RunRecord:
        """Waits for the end and gives the whole record.

        Raises:
            LinerateError: what the test ended with; `record` has what was measured.
        """
        return cast(RunRecord, self.end()["record"])


def document(verb: str, *words: object, program: str | None = None, **options: Any) -> dict[str, Any]:
    """What `linerate VERB … --json` prints.

    Raises:
        LinerateError: what the program ended with; `record` is what it printed, if anything was measured.
            That something holds a path back (exit code 5 of doctor) is none.
    """
    command = [program_path(program), *command_line(verb, words, {**options, "json": True})]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words_of_errors:
        child = started(command, words_of_errors)
        try:
            assert child.stdout is not None
            text = child.stdout.read()
            child.wait()
        finally:
            # Also when this is left early: what it has changed is put back, and the other end is told.
            code = stop(child)
        words_of_errors.seek(0)
        said = words_of_errors.read()
    try:
        printed = json.loads(text)
    except ValueError:
        printed = None
    if not isinstance(printed, dict):
        raise of_end(command[0], code, said)
    error = printed.get("error")
    # All but an error alone is a document.
    measured = cast(RunRecord, printed) if set(printed) - {"format", "kind", "error"} else None
    if isinstance(error, dict):
        raise of_record(cast(ErrorRecord, error), measured)
    if error:
        # As iperf3 says it.
        raise of_end(command[0], code, str(error))
    # A doctor's finding is a result.
    if code not in (0, 5):
        raise of_end(command[0], code, said, record=measured)
    return printed
