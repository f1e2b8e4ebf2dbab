"""An end for Loops that have none: ONNX lets a Loop run until its own body says so, or for 2^63 - 1
trips, so only running it tells how long it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import onnxruntime

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_bodies import inner_nodes

VARIABLE = "RIDGELINE_LOOP_SECONDS"
"""The environment variable that sets another limit; 0 for none."""
MOST_SECONDS = 30.0
"""Processor seconds of one run of a model with a Loop."""
_LOOK_SECONDS = 0.1


def has_loop(graph: Any) -> bool:
    """Whether a GraphProto has a Loop, at any depth."""
    every = (n for node in graph.node for n in (node, *inner_nodes(node)))
    return any(n.op_type == "Loop" and n.domain in ("", "ai.onnx") for n in every)


class LoopSession(onnxruntime.InferenceSession):
    """A session of a model with a Loop: a run of more than the limit ends in a RidgelineError."""

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        with _limited(run_options) as options:
            return super().run(output_names, input_feed, options)

    def run_with_ort_values(
        self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:
        with _limited(run_options) as options:
            return super().run_with_ort_values(output_names, input_dict_ort_values, options)


def most_seconds() -> float:
    """The limit in processor seconds; 0 for none. Raises RidgelineError for what is no number."""
    text = os.environ.get(VARIABLE, "").strip()
    try:
        seconds = float(text or MOST_SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise RidgelineError(
            f"'{text}' is not a number of seconds", where=VARIABLE, fix="For example: 60"
        )
    return seconds


@contextmanager
def _limited(given: Any) -> Generator[Any]:
    """Options for a run that ONNX Runtime ends, between two nodes, when the time is over."""
    options = given if given is not None else onnxruntime.RunOptions()
    options.log_severity_level = 4  # what ends it is told once, below
    limit_seconds, done, over = most_seconds(), Event(), Event()

    def end() -> None:
        over.set()
        options.terminate = True

    watcher = Thread(target=_watch, args=(limit_seconds, done, end), daemon=True)
    if limit_seconds:
        watcher.start()
    try:
        yield options
    except Exception as error:
        if not over.is_set():
            raise
        raise RidgelineError(
            f"a Loop of the model was still running after {limit_seconds:g} s of processor time,"
            " the limit",
            fix=f"If it is meant to take longer, set {VARIABLE}, 0 for no limit.",
        ) from error
    finally:
        done.set()


def _watch(limit_seconds: float, done: Event, end: Callable[[], None]) -> None:
    begun = time.process_time()
    while not done.wait(_LOOK_SECONDS):
        if time.process_time() - begun > limit_seconds:
            end()
            return
