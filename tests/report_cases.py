"""A small report with figures that stretch a table: long names, large numbers, a host layer."""

from __future__ import annotations

from ridgeline.results.rows import Accuracy, LayerRow, MachineFacts, Report

MACHINE = MachineFacts(
    name="tiny-16",
    description="16x16 INT8 array",
    clock_hz=100e6,
    rows=16,
    cols=16,
    dataflow="weight-stationary",
    device_memory_bytes_per_s=1600e6,
)

ROWS = (
    LayerRow(
        name="stem/conv",
        op="Conv",
        placed="array",
        shape=(450, 16, 8, 8),
        macs=4_147_200,
        vector_operations=460_800,
        weight_bytes=144,
        input_bytes=28_800,
        output_bytes=460_800,
        device_memory_bytes=29_000,
        cycles=60_000.0,
        ideal_array_cycles=16_200.0,
        ideal_memory_cycles=1_812.5,
        busy_cycles={"array": 28_800.0, "vector": 28_800.0, "memory": 2_000.0},
        ledger={"useful": 16_200.0, "unused": 12_600.0, "vector": 30_000.0, "input": 1_200.0},
        sqnr_db=41.25,
        origin=("stem/conv", "stem/conv_norm", "stem/relu"),
    ),
    LayerRow(
        name="features.transformer.block.11.attention.output.projection/MatMul",
        op="MatMul",
        placed="array",
        shape=(450, 64),
        macs=1_234_567_890,
        vector_operations=28_800,
        weight_bytes=123_456,
        input_bytes=57_600,
        output_bytes=28_800,
        device_memory_bytes=210_000,
        cycles=5_500_000.0,
        ideal_array_cycles=4_822_530.8,
        ideal_memory_cycles=13_125.0,
        busy_cycles={"array": 4_900_000.0, "memory": 14_000.0, "vector": 1_800.0},
        ledger={"useful": 4_822_530.8, "unused": 77_469.2, "read-after-write": 600_000.0},
        sqnr_db=38.0,
        origin=("features.transformer.block.11.attention.output.projection/MatMul",),
    ),
    LayerRow(
        name="softmax",
        op="Softmax",
        placed="host",
        shape=(450, 10),
        macs=0,
        vector_operations=0,
        weight_bytes=0,
        input_bytes=18_000,
        output_bytes=18_000,
        device_memory_bytes=0,
        cycles=2_900.0,
        ideal_array_cycles=0.0,
        ideal_memory_cycles=0.0,
        busy_cycles={"host": 2_900.0},
        ledger={"host": 2_900.0},
        reason="the vector unit has no exponential",
        origin=("softmax",),
    ),
)

REPORT = Report(
    model="digits",
    machine=MACHINE,
    numeric_mode="onnxruntime",
    batch=450,
    cycles=5_562_900,
    device_cycles=5_560_000,
    rows=ROWS,
    steady_cycles=5_500_000,
    accuracy=Accuracy(images=450, float_right=444, quantised_right=443),
    notes=("calibrated on 64 samples",),
)
