"""Commands about hardware of one's own: `rtl`, `cosim`, `fpga` and `worth`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.analysis_commands import Json, OnChips, Precision, Shapes
from ridgeline.cli.pipeline_options import (
    Activations,
    AsPipeline,
    Bits,
    Calibrate,
    Interval,
    MemoryBits,
    Multipliers,
    not_with_pipeline,
    only_with_pipeline,
)

if TYPE_CHECKING:
    from ridgeline.cli.pipeline import PipelineOptions

Figures = list[str] | None


def _pipeline(
    model: Path,
    pipeline: bool,
    calibrate: Path | None,
    activations: str | None,
    shape: list[str] | None,
    interval: int | None,
    multipliers: int | None,
    memory_bits: int | None,
    bits: list[str] | None,
    json: bool,
) -> PipelineOptions | None:
    """What the options say of a pipeline; None where the command is about a machine."""
    if not pipeline:
        only_with_pipeline(
            calibrate=calibrate,
            activations=activations,
            shape=shape,
            interval=interval,
            multipliers=multipliers,
            memory_bits=memory_bits,
            bits=bits,
        )
        return None
    from ridgeline.cli.pipeline import PipelineOptions

    return PipelineOptions(
        model=model,
        calibrate=calibrate,
        activations=activations or "uint8",
        shapes=tuple(shape or ()),
        interval=interval,
        multipliers=multipliers,
        memory_bits=memory_bits,
        bits=tuple(bits or ()),
        json=json,
    )


def rtl(
    machine: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE|MODEL.onnx", help="Machine to generate; a model with --pipeline."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR|FILE.v", help="A folder, or one file.")
    ],
    top: Annotated[
        str | None,
        typer.Option(
            "--top", metavar="axi|stream|core", help="Only this; else all, and core in a file."
        ),
    ] = None,
    bus_bits: Annotated[
        int | None, typer.Option("--bus-bits", metavar="N", help="Of AXI's data: 8 to 1024.")
    ] = None,
    address_bits: Annotated[
        int | None,
        typer.Option("--address-bits", metavar="N", help="Of AXI's addresses: 16 to 64; else 32."),
    ] = None,
    burst_beats: Annotated[
        int | None,
        typer.Option("--burst-beats", metavar="N", help="AXI's longest burst: 1 to 256; else 16."),
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters/--no-counters", help="Count the cycles of each stall.")
    ] = True,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field.")
    ] = None,
    pipeline: AsPipeline = False,
    calibrate: Calibrate = None,
    activations: Activations = None,
    interval: Interval = None,
    multipliers: Multipliers = None,
    memory_bits: MemoryBits = None,
    bits: Bits = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Write a machine as Verilog for a board, or a model as a pipeline."""
    asked = _pipeline(
        Path(machine), pipeline, calibrate, activations, shape, interval, multipliers, memory_bits,
        bits, json,
    )  # fmt: skip
    if asked is not None:
        from ridgeline.cli.pipeline import write_pipeline

        not_with_pipeline(
            top=top,
            bus_bits=bus_bits,
            address_bits=address_bits,
            burst_beats=burst_beats,
            no_counters=not counters,
            set=settings,
        )
        write_pipeline(asked, output)
        return
    from ridgeline.cli.rtl_folder import RtlOptions, write_rtl

    write_rtl(
        RtlOptions(
            machine=machine,
            settings=tuple(settings or ()),
            output=output,
            top=top,
            bus_bits=bus_bits,
            address_bits=address_bits,
            burst_beats=burst_beats,
            counters=counters,
            json=json,
        )
    )


def cosim(
    program: Annotated[
        Path, typer.Argument(metavar="P.rlp|MODEL.onnx", help="Made by `compile --device-only`.")
    ],
    input: Annotated[
        Path | None,
        typer.Option("--input", "-i", metavar="DATA.npz", help="Stored integers; else random."),
    ] = None,
    stalls: Annotated[
        int | None, typer.Option("--stalls", min=0, metavar="SEED", help="Stall memory at random.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random inputs.")] = 0,
    pipeline: AsPipeline = False,
    calibrate: Calibrate = None,
    activations: Activations = None,
    interval: Interval = None,
    multipliers: Multipliers = None,
    memory_bits: MemoryBits = None,
    bits: Bits = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Run a program on the generated hardware and compare bits and cycles."""
    asked = _pipeline(
        program, pipeline, calibrate, activations, shape, interval, multipliers, memory_bits, bits,
        json,
    )  # fmt: skip
    if asked is not None:
        from ridgeline.cli.pipeline import cosim_pipeline

        raise typer.Exit(cosim_pipeline(asked, input, stalls, seed))
    from ridgeline.cli.hardware import cosim as run

    raise typer.Exit(run(program, input, stalls, seed, json))


def fpga(
    machine: Annotated[
        str, typer.Argument(metavar="NAME|FILE|MODEL.onnx", help="Machine to build.")
    ],
    part: Annotated[
        str, typer.Option("--part", metavar="PART", help="LFE5U-85F[-SPEED]; XC7...: counts only.")
    ] = "LFE5U-85F",
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="P.rlp", help="Say how many frames a second it does."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field.")
    ] = None,
    clock: Annotated[
        float, typer.Option("--clock", min=1, metavar="MHZ", help="What to strive for.")
    ] = 100.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of place and route.")] = 1,
    count: Annotated[
        bool, typer.Option("--count", help="Synthesis alone: resources and no clock.")
    ] = False,
    pipeline: AsPipeline = False,
    calibrate: Calibrate = None,
    activations: Activations = None,
    interval: Interval = None,
    multipliers: Multipliers = None,
    memory_bits: MemoryBits = None,
    bits: Bits = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Place a machine on an FPGA: resources, clock, frames a second, power."""
    asked = _pipeline(
        Path(machine), pipeline, calibrate, activations, shape, interval, multipliers, memory_bits,
        bits, json,
    )  # fmt: skip
    if asked is not None:
        from ridgeline.cli.pipeline import PlaceOptions, place_pipeline

        not_with_pipeline(program=program, set=settings)
        place_pipeline(asked, PlaceOptions(part, clock, seed, count))
        return
    from ridgeline.cli.fpga import FpgaOptions, show_fpga

    show_fpga(
        FpgaOptions(
            machine=machine,
            part=part,
            program=program,
            settings=tuple(settings or ()),
            clock_mhz=clock,
            seed=seed,
            count=count,
            json=json,
        )
    )


def worth(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Float or QDQ.")],
    chip: OnChips = None,
    build: Annotated[
        str, typer.Option("--build", metavar="NAME|FILE", help="The machine that would be built.")
    ] = "tiny-16",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field of it.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--kind", metavar="fpga|fixed", help="On an FPGA or as a chip.")
    ] = "fpga",
    units: Annotated[
        int, typer.Option("--units", metavar="N", help="Sold or installed in all.")
    ] = 1000,
    years: Annotated[
        float, typer.Option("--years", metavar="N", help="That the model is in use.")
    ] = 5.0,
    changes: Annotated[
        float, typer.Option("--changes", metavar="N", help="Of the model, a year.")
    ] = 0.0,
    latency: Annotated[
        str | None, typer.Option("--latency", metavar="TIME", help="Of one inference: 10ms.")
    ] = None,
    guaranteed: Annotated[
        bool, typer.Option("--guaranteed", help="It must hold for every single one.")
    ] = False,
    rate: Annotated[
        float, typer.Option("--rate", metavar="RATE", help="Inferences a second of a unit.")
    ] = 0.0,
    kwh: Annotated[float, typer.Option("--kwh", metavar="USD", help="Price of a kWh.")] = 0.0,
    unit: Annotated[
        Figures, typer.Option("--unit", metavar="NAME=USD", help="Price of one; repeat.")
    ] = None,
    develop: Annotated[
        Figures, typer.Option("--develop", metavar="NAME=USD", help="The first version.")
    ] = None,
    change: Annotated[
        Figures, typer.Option("--change", metavar="NAME=USD", help="A change of the model.")
    ] = None,
    days: Annotated[
        Figures, typer.Option("--days", metavar="NAME=N", help="Until a change runs.")
    ] = None,
    joules: Annotated[
        Figures, typer.Option("--joules", metavar="NAME=J", help="Of one inference, measured.")
    ] = None,
    precision: Precision = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Say whether hardware of your own is worth it beside chips to buy."""
    from ridgeline.cli.worth import WorthOptions, show_worth

    show_worth(
        WorthOptions(
            model=model,
            build=build,
            kind=kind,
            settings=tuple(settings or ()),
            chips=tuple(chip or ()),
            precision=precision,
            shapes=tuple(shape or ()),
            units=units,
            years=years,
            changes=changes,
            latency=latency,
            guaranteed=guaranteed,
            rate=rate,
            kwh=kwh,
            unit=tuple(unit or ()),
            develop=tuple(develop or ()),
            change=tuple(change or ()),
            days=tuple(days or ()),
            joules=tuple(joules or ()),
            json=json,
        )
    )
