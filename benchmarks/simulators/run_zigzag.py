"""ZigZag on its own ResNet-18 and the machine that it calls TPU-like, timed.

    PYTHON run_zigzag.py

Runs in an environment that has it, with its own defaults. Prints JSON: processor_seconds and
peak_bytes of the process from its start, and its cycles of the network.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import tempfile
import time
from pathlib import Path

import zigzag
from zigzag.api import get_hardware_performance_zigzag


def main() -> None:
    inputs = Path(zigzag.__file__).parent / "inputs"
    logging.disable(logging.INFO)
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        _, cycles, *_ = get_hardware_performance_zigzag(
            str(inputs / "workload" / "resnet18.onnx"),
            str(inputs / "hardware" / "tpu_like.yaml"),
            str(inputs / "mapping" / "tpu_like.yaml"),
            dump_folder=folder,
            loma_show_progress_bar=False,
        )
    found = {
        "processor_seconds": time.process_time(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "cycles": int(cycles),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
