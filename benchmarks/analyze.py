"""How long reading and analysing a file takes, beside a public counter, in one run.

    python benchmarks/analyze.py [--onnx-tool PYTHON] [--repeats 5]

PYTHON is one with onnx-tool, in an environment of its own (pip install onnx-tool). Seconds of
processor after imports, the best of the repeats, each in the same state of the page cache.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from bert_base import bert_base
from bert_base import macs as bert_macs
from resnet50 import resnet50

from ridgeline.roofline.estimate import bound_of
from ridgeline.workload.read import read_workloads

RESNET_MACS = 4_089_184_256
TOKENS = 128
OTHER = """
import io, contextlib, sys, time
import onnx, onnx_tool
best, macs = None, None
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        proto = onnx.load(sys.argv[1])
        for value in proto.graph.input:
            for dim in value.type.tensor_type.shape.dim:
                dim.dim_value = dim.dim_value or 1
        model = onnx_tool.Model(proto)
        model.graph.graph_reorder_nodes()
        model.graph.shape_infer({})
        model.graph.profile()
    spent = time.process_time() - start
    best = spent if best is None else min(best, spent)
    macs = model.graph.macs[0] if isinstance(model.graph.macs, (list, tuple)) else model.graph.macs
print(best, macs)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnx-tool", metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    models = {
        "resnet50": (resnet50(224), RESNET_MACS),
        "bert-base": (bert_base(TOKENS), bert_macs(TOKENS)),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (data, macs) in models.items():
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(data)
            seconds, found = _ours(path, options.repeats)
            line = f"{name}: ridgeline {seconds:.2f} s, {found:,} MACs"
            print(line + (" (right)" if found == macs else f" (should be {macs:,})"))
            if options.onnx_tool:
                _beside(options.onnx_tool, path, options.repeats, seconds)


def _ours(path: Path, repeats: int) -> tuple[float, int | None]:
    """Reading, counting and the time on a chip."""
    best, macs = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        (workload,) = read_workloads(path, [1])
        bound_of(workload, "a100-sxm4-80gb", "fp16")
        best, macs = min(best, time.process_time() - start), workload.macs
    return best, macs


def _beside(python: str, path: Path, repeats: int, seconds: float) -> None:
    command = [python, "-c", OTHER, str(path), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  onnx-tool failed: {done.stderr.strip().splitlines()[-1]}")
        return
    spent, macs = done.stdout.split()[-2:]
    print(f"  onnx-tool {float(spent):.2f} s ({float(spent) / seconds:.1f} x), {float(macs):,.0f}")


if __name__ == "__main__":
    main()
