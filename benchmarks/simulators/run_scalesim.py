"""SCALE-Sim on layers of convolution, timed; runs in an environment that has it.

    PYTHON run_scalesim.py LAYERS.csv SIDE

LAYERS.csv is benchmarks/data/resnet50_gemms.csv. Weight-stationary, SIDE x SIDE, bandwidth
calculated, no traces written. Prints JSON: processor_seconds and peak_bytes of the process from its
start, and the cycles of all layers.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = ("layer", "height", "width", "filter_height", "filter_width", "channels", "filters")

CONFIGURATION = """
[general]
run_name = speed
[architecture_presets]
ArrayHeight = {side}
ArrayWidth = {side}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 10
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def run(layers: Path, side: int, folder: Path) -> int:
    """Cycles that SCALE-Sim reports for all layers."""
    from scalesim.scale_sim import scalesim

    with layers.open(encoding="utf-8") as file:
        rows = [[*(row[name] for name in COLUMNS), row["stride"]] for row in csv.DictReader(file)]
    topology, layout = folder / "topology.csv", folder / "layout.csv"
    lines = [",".join((*COLUMNS, "strides", "")), *(",".join((*row, "")) for row in rows)]
    topology.write_text("\n".join(lines) + "\n")
    layout.write_text("\n".join([lines[0], *(f"{row[0]}," + "1," * 20 for row in rows)]) + "\n")
    configuration = folder / "scale.cfg"
    configuration.write_text(CONFIGURATION.format(side=side))
    simulation = scalesim(True, False, str(configuration), str(topology), str(layout))
    simulation.run_scale(str(folder / "results"))
    with next(folder.glob("results/*/COMPUTE_REPORT.csv")).open() as file:
        report = list(csv.DictReader(file, skipinitialspace=True))
    return sum(int(float(row["Total Cycles"])) for row in report)


def main() -> None:
    layers, side = Path(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        cycles = run(layers, side, Path(folder))
    found = {
        "processor_seconds": time.process_time(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "cycles": cycles,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
