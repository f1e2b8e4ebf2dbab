"""Ctrl-C at any moment: "interrupted" and exit code 130, never a traceback.

Python raises KeyboardInterrupt wherever it happens to be, and in the middle of an import that comes
out as anything. So there are three times: before the work an interrupt ends the process at once, as
there is nothing to clean up; during the work it is raised; after it, nothing more can be stopped.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn, TextIO

INTERRUPTED = 130

_seen = False
_told = False


def before_work() -> None:
    """End the process at once from now on. Where SIGINT is ignored (nohup), it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def work_begins() -> None:
    """Raise KeyboardInterrupt from now on, if `before_work` is in force."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = _unraisable


def work_ends() -> None:
    """Nothing is left to interrupt: the process ends by itself in a moment."""
    if signal.getsignal(signal.SIGINT) in (_end, _raise):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def seen() -> bool:
    """Whether Ctrl-C was pressed during the work, whatever became of its KeyboardInterrupt."""
    return _seen


def tell(stream: TextIO) -> None:
    """Say it."""
    global _told
    _told = True
    print("interrupted", file=stream)


def told() -> bool:
    """Whether it has been said."""
    return _told


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    global _seen
    _seen = True
    raise KeyboardInterrupt


def _unraisable(lost: Any) -> None:
    """A KeyboardInterrupt that a destructor swallowed comes again; all else is told as ever."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # Later, as what is raised within this hook would be lost as well.
        import threading

        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)
