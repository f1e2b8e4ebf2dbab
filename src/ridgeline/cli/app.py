"""The commands and their options. What they do is imported when a command runs, so that --help is
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ridgeline import __version__
from ridgeline.cli import analysis_commands, hardware_commands, sheet_commands
from ridgeline.cli.chip_commands import chips_app
from ridgeline.cli.failure import Commands

app = typer.Typer(
    cls=Commands,
    name="ridgeline",
    help="Quantise an ONNX model to INT8, compile it onto an accelerator, run it there bit for bit"
    " and cycle for cycle, and say layer by layer what limits it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(chips_app)


def _machines(begun: str) -> list[str]:
    """Names of shipped machines, for the shell's completion."""
    from ridgeline.machine.loader import machine_names

    return [name for name in machine_names() if name.startswith(begun)]


Model = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="ONNX model, float or QDQ.")]
ProgramFile = Annotated[Path, typer.Argument(metavar="P.rlp", help="Program made by `compile`.")]
MachineName = Annotated[
    str,
    typer.Option(
        "--machine",
        "-m",
        metavar="NAME|FILE",
        help="Shipped machine, or a TOML file.",
        autocompletion=_machines,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a field: --set array.rows=32."),
]
Batch = Annotated[
    int | None, typer.Option("--batch", min=1, metavar="N", help="Samples in one run.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=D0,D1,...", help="Dimensions of an input."),
]
Calibrate = Annotated[
    Path | None,
    typer.Option("--calibrate", metavar="DATA.npz", help="Samples that set the ranges."),
]
Activations = Annotated[
    Literal["uint8", "int8", "int16"],
    typer.Option("--activations", help="Number format of activations."),
]
Observer = Annotated[
    Literal["minmax", "percentile", "error", "chosen"],
    typer.Option("--observer", help="How ranges are found; chosen: as half of the samples tells."),
]
Labels = Annotated[
    bool, typer.Option("--labels", help="Print the accuracy; --input holds `labels` too.")
]
DumpStages = Annotated[
    Path | None,
    typer.Option("--dump-stages", metavar="DIR", help="Write every stage as text and ONNX."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write a trace for ui.perfetto.dev."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
]
HtmlFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a web page.")
]
ReportFormat = Annotated[
    Literal["text", "markdown", "csv", "json"],
    typer.Option("--format", help="How the report is printed."),
]
Pipelined = Annotated[
    bool,
    typer.Option("--pipelined", help="Also time runs that follow each other without a pause."),
]
Input = Annotated[
    Path,
    typer.Option("--input", "-i", metavar="DATA.npz", help="Samples to execute, by input name."),
]
MaybeInput = Annotated[
    Path | None,
    typer.Option("--input", "-i", metavar="DATA.npz", help="Samples to execute, by input name."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT.npz", help="Write the outputs.")
]
Float = Annotated[
    str | None,
    typer.Option("--float", metavar="FORMAT", help="Compute in this format, not in INT8."),
]
DebuggedProgram = Annotated[
    Path | None,
    typer.Option("--program", metavar="P.rlp", help="Look into this program, on its machine."),
]
Against = Annotated[
    str,
    typer.Option(
        "--against",
        metavar="integers|onnxruntime|FILE.npz",
        help="What each value should be; a file as --dump writes it.",
    ),
]
Dump = Annotated[
    Path | None,
    typer.Option("--dump", metavar="OUT.npz", help="Write each layer's stored output."),
]
FoundFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write what was found as JSON.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="KEY,...", help="Columns of the table, or all."),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ridgeline {__version__}")
        raise typer.Exit


@app.callback()
def ridgeline(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    model: Model,
    machine: MachineName = "tiny-16",
    settings: Settings = None,
    batch: Batch = None,
    shape: Shapes = None,
    input: MaybeInput = None,
    output: Output = None,
    calibrate: Calibrate = None,
    labels: Labels = False,
    activations: Activations = "uint8",
    observer: Observer = "minmax",
    floating: Float = None,
    dump_stages: DumpStages = None,
    trace: TraceFile = None,
    json: JsonFile = None,
    html: HtmlFile = None,
    format: ReportFormat = "text",
    columns: Columns = None,
    pipelined: Pipelined = False,
) -> None:
    """The whole way: read, quantise, compile, execute, time and report."""
    from ridgeline.cli.report_files import ReportFiles
    from ridgeline.cli.run import RunOptions
    from ridgeline.cli.run import run as run_all
    from ridgeline.cli.show import Format, split_columns
    from ridgeline.quant.recipe import Recipe

    recipe = Recipe(activations=activations, observer=observer)
    files = ReportFiles(trace=trace, json=json, html=html)
    keys = tuple(split_columns(columns or ()))
    run_all(
        RunOptions(
            *(model, machine, tuple(settings or ()), batch, tuple(shape or ())),
            *(input, output, calibrate, labels, recipe, floating),
            *(dump_stages, files, Format(format), keys, pipelined),
        )
    )


@app.command()
def quantize(
    model: Model,
    calibrate: Annotated[
        Path, typer.Option("--calibrate", metavar="DATA.npz", help="Samples that set the ranges.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="Q.onnx", help="The quantised model.")
    ],
    activations: Activations = "uint8",
    observer: Observer = "minmax",
    batch: Batch = None,
    shape: Shapes = None,
) -> None:
    """Write the INT8 model as ONNX (QDQ), which ONNX Runtime runs."""
    from ridgeline.cli import programs
    from ridgeline.quant.recipe import Recipe

    recipe = Recipe(activations=activations, observer=observer)
    programs.quantize(model, output, calibrate, recipe, batch, tuple(shape or ()))


@app.command()
def compile(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="P.rlp", help="The program.")],
    machine: MachineName = "tiny-16",
    settings: Settings = None,
    calibrate: Calibrate = None,
    activations: Activations = "uint8",
    observer: Observer = "minmax",
    batch: Batch = None,
    shape: Shapes = None,
    dump_stages: DumpStages = None,
    device_only: Annotated[
        bool, typer.Option("--device-only", help="Without the host's part: for `cosim`.")
    ] = False,
) -> None:
    """Write the program that computes a model on a machine."""
    from ridgeline.cli import programs
    from ridgeline.quant.recipe import Recipe

    recipe = Recipe(activations=activations, observer=observer)
    shapes = tuple(shape or ())
    programs.compile(
        *(model, output, machine, tuple(settings or ()), recipe, calibrate, batch, shapes),
        *(dump_stages, device_only),
    )


@app.command()
def disassemble(program: ProgramFile) -> None:
    """Print a program's instructions."""
    from ridgeline.cli import programs

    programs.disassemble(program)


@app.command()
def check(program: ProgramFile) -> None:
    """Prove that a program has no race and no deadlock."""
    from ridgeline.cli import programs

    programs.check_program(program)


@app.command()
def execute(
    program: ProgramFile,
    input: Input,
    output: Output = None,
    labels: Labels = False,
) -> None:
    """Compute a program's outputs, bit for bit."""
    from ridgeline.cli import programs

    programs.execute(program, input, output, labels)


@app.command()
def simulate(
    program: ProgramFile,
    trace: TraceFile = None,
    json: JsonFile = None,
    html: HtmlFile = None,
    format: ReportFormat = "text",
    columns: Columns = None,
    pipelined: Pipelined = False,
) -> None:
    """Time a program, cycle for cycle, and say what limits each layer."""
    from ridgeline.cli import programs
    from ridgeline.cli.report_files import ReportFiles
    from ridgeline.cli.show import Format, split_columns

    keys = tuple(split_columns(columns or ()))
    files = ReportFiles(trace=trace, json=json, html=html)
    programs.simulate(program, files, Format(format), keys, pipelined)


@app.command()
def machines(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="Show every field of this machine.")
    ] = None,
    settings: Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the machines that come with Ridgeline, or every field of one with its source."""
    from ridgeline.cli.machines import show_machines

    show_machines(name, tuple(settings or ()), json)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="Report made by --json.")],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="Report to compare with it.")],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help="Exit with 1 if this holds: cycles>+2%, accuracy<-0.01, cycles>100000.",
        ),
    ] = None,
) -> None:
    """Say what changed from one report to another."""
    from ridgeline.cli import diff as command

    raise typer.Exit(command.diff(before, after, tuple(fail_if or ())))


@app.command()
def debug(
    model: Model,
    input: Input,
    machine: MachineName = "tiny-16",
    settings: Settings = None,
    program: DebuggedProgram = None,
    against: Against = "integers",
    calibrate: Calibrate = None,
    activations: Activations = "uint8",
    observer: Observer = "minmax",
    batch: Batch = None,
    shape: Shapes = None,
    dump: Dump = None,
    json: FoundFile = None,
) -> None:
    """Find the first layer, instruction and value that differ; exit with 1 if any does."""
    from ridgeline.cli import debug as command
    from ridgeline.quant.recipe import Recipe

    recipe = Recipe(activations=activations, observer=observer)
    options = command.DebugOptions(
        *(model, input, machine, tuple(settings or ()), program, against),
        *(calibrate, recipe, batch, tuple(shape or ()), dump, json),
    )
    raise typer.Exit(command.debug(options))


@app.command()
def gemm(
    shapes: Annotated[
        Path, typer.Argument(metavar="SHAPES.csv", help="Products: columns m, n and k.")
    ],
    chip: Annotated[str, typer.Option("--chip", metavar="NAME|FILE", help="Of `chips list`.")],
    precision: Annotated[
        str, typer.Option("--precision", metavar="FORMAT", help="Such as bf16, fp8 or int4_wo.")
    ],
    cached: Annotated[
        bool, typer.Option("--cached-weights", help="Weights that fit stay on the chip.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict how long products of matrices take on a chip."""
    from ridgeline.cli import gemm as command

    command.show_products(shapes, chip, precision, "cache" if cached else "memory", json)


app.command()(analysis_commands.analyze)
app.command()(analysis_commands.advise)
app.command()(sheet_commands.scoreboard)
app.command()(sheet_commands.explain)
app.command()(sheet_commands.choose)
app.command()(hardware_commands.rtl)
app.command()(hardware_commands.cosim)
app.command()(hardware_commands.fpga)
app.command()(hardware_commands.worth)


@app.command()
def doctor() -> None:
    """Say what is installed, and whether results here compare bit for bit."""
    from ridgeline.cli import doctor as command

    raise typer.Exit(command.doctor())
