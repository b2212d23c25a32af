"""How many functions and files of ours one event goes through, from its line to the result's line.

``python -m bench.one_event`` counts with ``sys.setprofile`` what one line of JSON calls from the
moment it is read until its match is written, in this process and not for the first time: the input
becomes an arrival log, the log is read, put in order, matched, and shown as a line. ``whole
command`` is all of ``slackwater query``: options, query and plan, too.

A function is what ``def`` and ``lambda`` make; a comprehension is none, as newer Pythons make none
of it. A kernel is one function, whatever it calls: compiled, it is. A change of file is a call or
a return that leads from one file into another.
"""

from __future__ import annotations

import inspect
import io
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

ROOT: Final = str(Path(__file__).resolve().parent.parent) + "/"
_ENVIRONMENT: Final = sys.prefix + "/"  # may lie in the same folder (.venv), and is not ours
LINE: Final = '{"type": "A", "seq": 0, "ts": 3, "attrs": {"v": 1}}\n'
QUERY: Final = "EVENT SEQ(A a) WHERE a.v > 0 WITHIN 5"
_COMPREHENSIONS: Final = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
_KERNEL: Final = ROOT + "engine/kernels/jit.py"


class CallPath(NamedTuple):
    """What was called: each function with its file, and how often the file changed; and every call
    in turn: (how deep, file, function, whether the file changed).
    """

    functions: frozenset[tuple[str, str, int]]
    changes: int
    calls: tuple[tuple[int, str, str, bool], ...]

    @property
    def files(self) -> set[str]:
        return {file for file, _, _ in self.functions}


@cache
def resolved(file: str) -> str:
    """Its own path: what is imported as ``slackwater.engine`` lies in ``engine/``."""
    return str(Path(file).resolve())


def way_of(work: Callable[[], Any]) -> CallPath:
    """The way that ``work`` takes through our files."""
    functions: set[tuple[str, str, int]] = set()
    kernel: FrameType | None = None  # whose inside is not looked at
    calls: list[tuple[int, str, str, bool]] = []
    now, changes, depth = "", 0, 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal kernel, now, changes, depth
        if kernel is not None:
            kernel = None if event == "return" and frame is kernel else kernel
            return
        code: CodeType = frame.f_code
        file = code.co_filename
        is_ours = file.startswith(ROOT) and not file.startswith(_ENVIRONMENT) and file != __file__
        if event not in ("call", "return") or not is_ours:
            return
        file = resolved(file)
        if event == "call" and file == _KERNEL and code.co_name == "__call__":
            kernel, code = frame, inspect.unwrap(frame.f_locals["self"]).__code__
            file = resolved(code.co_filename)
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # neither a module nor a class's body
        if not is_function or code.co_name in _COMPREHENSIONS:
            return
        functions.add((file.removeprefix(ROOT), code.co_qualname, code.co_firstlineno))
        if event == "call":
            calls.append((depth, file.removeprefix(ROOT), code.co_qualname, now != file))
        if kernel is None:
            depth += 1 if event == "call" else -1
        changes += now not in ("", file)
        now = file

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return CallPath(frozenset(functions), changes, tuple(calls))


def from_line_to_line() -> CallPath:
    """The way of ``LINE`` to its result, the second time that it goes it."""
    from slackwater.engine.hosts.options import QueryOptions  # noqa: PLC0415 - as a command
    from slackwater.engine.hosts.pipeline import Host, check_plans, prepare  # noqa: PLC0415
    from slackwater.engine.hosts.result_files import Answers  # noqa: PLC0415
    from slackwater.engine.query import query  # noqa: PLC0415

    plans = (query(QUERY, name="q1"),)
    settings = QueryOptions().answering(plans, "ns")
    host = Host()

    def work() -> None:
        with tempfile.TemporaryDirectory() as name:
            folder, out = Path(name), io.StringIO()
            (folder / "trace.jsonl").write_text(LINE, encoding="utf-8")
            prepared = prepare(str(folder / "trace.jsonl"), folder, hold=True)
            check_plans(prepared.log, plans)
            parts = host.store(folder / "parts", is_kept=False)
            host.run(prepared.log, settings, parts, lambda _: None)
            Answers(parts, plans, "ns").lines(out)
        assert out.getvalue().count("\n") == 1, "one event, one match"

    work()
    return way_of(work)


def whole_command() -> CallPath:
    """The way of ``slackwater query`` over ``LINE``, called the second time."""
    from slackwater.engine.cli.app import run  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as name:
        trace, out = Path(name, "trace.jsonl"), Path(name, "out.jsonl")
        trace.write_text(LINE, encoding="utf-8")
        call = ["query", QUERY, "--input", str(trace), "--out", str(out), "--quiet"]
        run(call)
        return way_of(lambda: run(call))


def main() -> None:
    """Print both ways; with a word, every call of the second in turn, starred in another file."""
    print(f"{'':16} functions  files  changes of file")
    for name, way in (("whole command", whole_command()), ("line to line", from_line_to_line())):
        print(f"{name:16} {len(way.functions):9}  {len(way.files):5}  {way.changes:15}")
    if len(sys.argv) > 1:
        for depth, file, name, is_elsewhere in way.calls:
            print(f"{'  ' * depth}{name}{' * ' + file if is_elsewhere else ''}")


if __name__ == "__main__":
    main()
