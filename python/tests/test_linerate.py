"""The package against the program itself, over loopback, and against programs that only look like it.

LINERATE=../target/release/linerate PYTHONPATH=src python3 -m unittest discover -s tests
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import typing
import unittest

import linerate
from linerate import _types
from linerate._run import command_line, program_path

HERE = pathlib.Path(__file__).parent
SHORT = {"local": True, "time": "300ms", "interval": "100ms"}


def impostor(folder: str, script: str) -> str:
    """A program that is none of linerate's."""
    path = pathlib.Path(folder, "impostor")
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class Tests(unittest.TestCase):
    """Whole tests of the program."""

    def test_events_come_in_order_and_the_last_holds_the_record(self) -> None:
        events = list(linerate.udp(rate="10M", **SHORT))
        self.assertEqual([e["event"] for e in events], ["start", *["interval"] * 3, "end"])
        record = events[-1]["record"]
        self.assertEqual((record["status"], len(record["intervals"])), ("complete", 3))
        self.assertEqual(record["asked"]["rate_bps"], 10_000_000)

    def test_results_of_each_kind(self) -> None:
        for test in (linerate.udp, linerate.tcp, linerate.rr):
            record = test(**SHORT).result()
            self.assertEqual(record["status"], "complete")
            self.assertGreater(len(record["summary"]), 1)

    def test_a_result_is_the_same_when_asked_again_and_no_event_is_left(self) -> None:
        run = linerate.tcp(streams=2, **SHORT)
        self.assertIs(run.result(), run.result())
        self.assertEqual(list(run), [])

    def test_rows_are_flat_and_what_was_not_measured_is_absent(self) -> None:
        record = linerate.udp(rate="10M", **SHORT).result()
        rows = linerate.rows(record)
        self.assertEqual([row["start_s"] for row in rows], [0.0, 0.1, 0.2])
        # On a busy machine nothing may have been sent.
        received = sum(row.get("receiver.datagrams", 0) for row in rows)
        self.assertEqual(received, record["totals"]["receiver"]["datagrams"])
        self.assertNotIn("rr.transactions", rows[0])
        self.assertFalse([row for row in rows if any(isinstance(v, (dict, list)) for v in row.values())])

    def test_a_frame_has_a_row_for_each_interval(self) -> None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = linerate.frame(linerate.udp(rate="10M", **SHORT).result())
        self.assertEqual(len(frame), 3)
        self.assertEqual(frame["sender.seconds"].sum().round(6), 0.3)

    def test_a_sweep_tells_its_trials(self) -> None:
        run = linerate.sweep(local=True, time="100ms", warmup="0ms", rates="10M,20M")
        events = list(run)
        self.assertEqual(events[0]["event"], "start")
        # It stops where the sender cannot follow, and repeats what is unsure.
        trials = [event for event in events if event["event"] == "trial"]
        self.assertGreaterEqual(len(trials), 1)
        self.assertEqual(run.result(), events[-1]["document"])

    def test_documents_are_compared(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in "ab":
                runs = [linerate.udp(rate="10M", **SHORT).result() for _ in range(3)]
                pathlib.Path(folder, name).write_text("".join(json.dumps(run) + "\n" for run in runs))
            compared = linerate.document("compare", f"{folder}/a", f"{folder}/b")
        self.assertEqual((len(compared["sets"]), len(compared["comparisons"])), (2, 1))


class Faults(unittest.TestCase):
    """What goes wrong is an exception with the program's words."""

    def test_a_wrong_option_says_what_can_be_given(self) -> None:
        with self.assertRaises(linerate.UsageError) as caught:
            linerate.udp(rate="10X", **SHORT).result()
        self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("usage", 2))
        self.assertTrue(caught.exception.hints)
        with self.assertRaises(linerate.UsageError):
            list(linerate.udp("--local", nonsense=True))

    def test_nobody_there_is_unreachable_and_keeps_what_was_asked(self) -> None:
        with self.assertRaises(linerate.Unreachable) as caught:
            linerate.udp("127.0.0.1", port=9, time="1s").result()
        assert caught.exception.record is not None
        self.assertEqual(caught.exception.record["target"], "127.0.0.1")

    def test_a_failure_is_told_again(self) -> None:
        run = linerate.udp("127.0.0.1", port=9)
        for _ in range(2):
            with self.assertRaises(linerate.Unreachable):
                run.result()

    def test_a_run_that_is_left_ends_and_leaves_no_process(self) -> None:
        with linerate.udp(local=True, rate="1M", time="60s", interval="100ms") as run:
            for event in run:
                if event["event"] == "interval":
                    break
        self.assertIsNotNone(run._child.returncode)
        with self.assertRaises(linerate.LinerateError):
            run.result()

    def test_a_run_that_nobody_has_any_more_ends_without_a_collection(self) -> None:
        self.addCleanup(gc.enable)
        gc.disable()
        with tempfile.TemporaryDirectory() as folder:
            script = f'echo $$ > {folder}/pid; echo \'{{"event":"start"}}\'; exec sleep 600'
            for _ in linerate.udp("h", program=impostor(folder, script)):
                break
            pid = int(pathlib.Path(folder, "pid").read_text())
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_an_interrupted_test_keeps_what_it_measured(self) -> None:
        run = linerate.udp(local=True, rate="1M", time="60s", interval="100ms")
        told = False
        with self.assertRaises(linerate.Interrupted) as caught:
            for event in run:
                # Once: the program waits for nothing when it is told so a third time.
                if event["event"] == "interval" and not told:
                    told = True
                    run._child.send_signal(2)
        assert caught.exception.record is not None
        self.assertEqual(caught.exception.record["status"], "partial")

    def test_a_document_that_is_left_early_is_interrupted_and_not_killed(self) -> None:
        def leave(*_: object) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            raise TimeoutError

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, leave))
        with tempfile.TemporaryDirectory() as folder:
            # It tells whoever waits to leave once more was read than a pipe holds: somebody waits by then.
            # A shell cannot trap what was ignored when it began, as an interrupt is behind `&`.
            told = f"""import os, signal, sys, time
def end(*_):
    open("{folder}/end", "w").write("put back")
    os._exit(130)
signal.signal(signal.SIGINT, end)
sys.stdout.write("0" * 300000)
sys.stdout.flush()
while True:
    os.kill(os.getppid(), signal.SIGALRM)
    time.sleep(0.01)
"""
            script = f"exec {sys.executable} -c '{told}'"
            with self.assertRaises(TimeoutError):
                linerate.document("tune", "udp", program=impostor(folder, script))
            self.assertEqual(pathlib.Path(folder, "end").read_text(), "put back")

    def test_a_program_that_is_missing_or_another_is_named(self) -> None:
        with self.assertRaises(linerate.ProgramMissing):
            linerate.udp("h", program="/nonexistent/linerate")
        with tempfile.TemporaryDirectory() as folder:
            # The system runs no file without a first line that says by what.
            none = pathlib.Path(impostor(folder, ""))
            none.write_bytes(b"\0")
            for call in (linerate.udp, linerate.document):
                with self.assertRaises(linerate.ProgramMissing):
                    call("compare", program=str(none))
        with tempfile.TemporaryDirectory() as folder:
            for script in (
                "echo hello",
                "echo '[1]'",
                "echo no such option >&2; exit 64",
                "exit 0",
                "kill -9 $$",
            ):
                with self.assertRaises(linerate.LinerateError, msg=script):
                    linerate.udp("h", program=impostor(folder, script)).result()
                with self.assertRaises(linerate.LinerateError, msg=script):
                    linerate.document("compare", program=impostor(folder, script))

    def test_an_experiment_gives_its_document_whatever_its_line_calls_it(self) -> None:
        error = '{"kind":"interrupted","what":"it was ended","why":"by a signal","exit_code":130}'
        for call, key in ((linerate.sweep, "document"), (linerate.search, "search")):
            with tempfile.TemporaryDirectory() as folder:
                script = f'echo \'{{"event":"end","{key}":{{"trials":[]}}}}\''
                self.assertEqual(call("h", program=impostor(folder, script)).result(), {"trials": []})
                script = f'echo \'{{"event":"end","{key}":{{"trials":[1],"error":{error}}}}}\'; exit 130'
                with self.assertRaises(linerate.Interrupted) as caught:
                    call("h", program=impostor(folder, script)).result()
            self.assertEqual((caught.exception.what, caught.exception.kind), ("it was ended", "interrupted"))
            self.assertEqual(typing.cast(typing.Any, caught.exception.record)["trials"], [1])

    def test_options_of_a_document_are_those_of_its_last_verb(self) -> None:
        for words in (("campaign", "run", "/nonexistent"), ("campaign", "status", "/nonexistent")):
            with self.assertRaisesRegex(linerate.LinerateError, "/nonexistent"):
                linerate.document(*words)
        for words in (("tune", "tcp", "127.0.0.1"), ("profile", "tcp", "127.0.0.1")):
            with self.assertRaisesRegex(linerate.UsageError, "--streams"):
                linerate.document(*words, streams=0)

    def test_a_document_of_what_was_not_had_in_whole_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # As a fleet says it, two of whose pairs have no value.
            script = 'echo \'{"kind":"fleet","id":"x","pairs":[]}\'; echo "2 have none" >&2; exit 1'
            with self.assertRaisesRegex(linerate.TestFailed, "2 have none") as caught:
                linerate.document("fleet", "run", program=impostor(folder, script))
        self.assertEqual(typing.cast(typing.Any, caught.exception.record)["pairs"], [])
        with tempfile.TemporaryDirectory() as folder:
            # As a campaign says it, which has a name.
            script = 'echo \'{"name":"x","done":1,"total":2}\'; echo "1 of 2" >&2; exit 1'
            with self.assertRaisesRegex(linerate.TestFailed, "1 of 2") as caught:
                linerate.document("campaign", "run", "plan.toml", program=impostor(folder, script))
        self.assertEqual(typing.cast(typing.Any, caught.exception.record)["total"], 2)

    def test_an_error_of_another_programs_form_is_told(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = 'echo \'{"error":"unable to connect"}\'; exit 1'
            with self.assertRaisesRegex(linerate.TestFailed, "unable to connect"):
                linerate.document("iperf3", client="h", program=impostor(folder, script))

    def test_much_on_standard_error_holds_nothing_up(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = 'head -c 3000000 /dev/zero >&2; echo \'{"event":"end","record":{}}\''
            self.assertEqual(linerate.udp("h", program=impostor(folder, script)).result(), {})


class Words(unittest.TestCase):
    """Options to words."""

    def test_options_are_those_of_the_command_line(self) -> None:
        options = {
            "rate": "1G",
            "reverse": True,
            "both": False,
            "bind": None,
            "goal": ["a", "b"],
            "no_checksum": True,
        }
        self.assertEqual(
            command_line("udp", ("h", None), options),
            ["udp", "h", "--rate=1G", "--reverse", "--goal=a", "--goal=b", "--no-checksum"],
        )
        self.assertEqual(command_line("udp", ("-h",), {}), ["udp", "--", "-h"])
        self.assertEqual(
            command_line("compare", ("a", "-b", "c"), {"json": True}),
            ["compare", "a", "--json", "--", "-b", "c"],
        )

    def test_no_option_of_the_package_follows_two_dashes(self) -> None:
        with tempfile.TemporaryDirectory() as folder, linerate.udp("-h", program=impostor(folder, "")) as run:
            self.assertEqual(run.command[1:], ["udp", "--json-lines", "--", "-h"])


class Types(unittest.TestCase):
    """The types are those of the program."""

    def test_they_are_made_of_the_programs_schema(self) -> None:
        schema = subprocess.run([program_path(None), "schema", "run-line"], capture_output=True, check=True)
        made = subprocess.run(
            [sys.executable, HERE.parent / "tools" / "make_types.py"],
            input=schema.stdout,
            capture_output=True,
            check=True,
        )
        kept = pathlib.Path(typing.cast(str, _types.__file__)).read_text()
        self.assertEqual(made.stdout.decode(), kept, "tools/make_types.py says how they are made again")


if __name__ == "__main__":
    unittest.main()
