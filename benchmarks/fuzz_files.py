"""Hostile files through the command line: every run must end with exit code 0 or 2 and a message.

    python benchmarks/fuzz_files.py --minutes 60 --memory-gb 6 --seed 1

A worker process takes mutated models, programs, arrays, machine files and reports through the
commands, under a limit of memory. What counts as found: an exception that is not told in one
message, a crash of the process, more than a minute, "not enough memory" without its limit, a write
outside of the named outputs, a read outside of the model's folder. Each is kept under --keep, a new
temporary folder otherwise, with its commands, once for each place in the sources.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("model", "model", "model", "program", "arrays", "machine", "report")
MOST_SECONDS = 60
MOST_QUIET_SECONDS = 1800
"""On the clock, for a file: on a busy computer little of that is the worker's."""
CASES_A_WORKER = 400


@dataclass(slots=True)
class Watch:
    """What the audit hook of a worker saw of the file system."""

    sandbox: str = ""
    faults: list[str] = field(default_factory=list[str])

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.sandbox or not isinstance(arguments[0], str):
            return
        path, mode, flags = arguments
        real = os.path.realpath(path)
        writes = (isinstance(mode, str) and any(c in mode for c in "wax+")) or bool(
            (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if writes and not real.startswith((f"{self.sandbox}/work", "/dev/")):
            self.faults.append(f"wrote {real}")
        if os.path.basename(real) == "secret.bin" or real == "/etc/passwd":
            self.faults.append(f"read {real}")


def main() -> None:
    options = _options()
    if options.worker:
        _work(options)
        return
    begun = time.monotonic()
    findings = Path(options.keep or tempfile.mkdtemp(prefix="ridgeline-fuzz-"))
    findings.mkdir(parents=True, exist_ok=True)
    print(f"what is found is kept under {findings}", flush=True)
    counts: Counter[str] = Counter()
    round_number = 0
    while time.monotonic() - begun < options.minutes * 60:
        round_number += 1
        left = options.minutes * 60 - (time.monotonic() - begun)
        counts += _round(options, options.seed * 100_000 + round_number, left, findings)
        minutes = (time.monotonic() - begun) / 60
        worked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime / 60
        print(f"{minutes:.0f} min ({worked:.0f} of processor), {dict(sorted(counts.items()))}")
        sys.stdout.flush()
    kept = sorted(p.parent.name for p in findings.glob("*/what.txt"))
    print(
        f"{sum(counts.values()):,} files in {options.minutes} minutes; found: {kept or 'nothing'}"
    )


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--memory-gb", type=float, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="", help="folder for what is found")
    parser.add_argument("--only", default="", help="one kind of file")
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _round(options: Any, seed: int, left_seconds: float, findings: Path) -> Counter[str]:
    """One worker's run; a worker that dies or hangs is a finding, with the case that it was at."""
    log = findings / "worker.log"
    command = [sys.executable, __file__, "--worker", str(seed), "--keep", str(findings)]
    command += ["--memory-gb", str(options.memory_gb), "--only", options.only]
    with log.open("w") as stream:
        worker = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        heart, end = findings / "heart", time.monotonic() + left_seconds
        heart.touch()
        beat, used_seconds = heart.stat().st_mtime, 0.0
        try:
            while worker.poll() is None and time.monotonic() < end:
                time.sleep(1)
                if heart.stat().st_mtime != beat:
                    beat, used_seconds = heart.stat().st_mtime, _processor_seconds(worker.pid)
                worked = _processor_seconds(worker.pid) - used_seconds > 3 * MOST_SECONDS
                if worked or time.time() - beat > MOST_QUIET_SECONDS:
                    _keep(findings, f"hang-{seed}", findings / "sandbox", "no answer")
                    break
        finally:
            worker.kill()
            worker.wait()
    lines = log.read_text(errors="replace").splitlines()
    if worker.returncode not in (0, -signal.SIGKILL):
        _keep(findings, f"crash-{seed}", findings / "sandbox", "\n".join(lines[-40:]))
    counted = [line.split()[1] for line in lines if line.startswith("case ")]
    return Counter(counted)


def _processor_seconds(process: int) -> float:
    """Of a child that runs (Linux; 0 elsewhere)."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _keep(findings: Path, name: str, sandbox: Path, text: str) -> None:
    folder = findings / name
    if folder.exists():
        return
    folder.mkdir()
    for path in (sandbox / "work").iterdir():
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 50e6:
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "what.txt").write_text(text)


def _work(options: Any) -> None:
    """Cases until the worker has had its share; memory that leaks ends with it."""
    limit = int(options.memory_gb * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    findings = Path(options.keep)
    chance = random.Random(options.worker)
    watch = Watch()
    bench = Bench(findings / "sandbox", chance)
    sys.addaudithook(watch)
    signal.signal(signal.SIGPROF, _too_long)  # of processor time: others may use the computer
    for _ in range(CASES_A_WORKER):
        kind = options.only or chance.choice(KINDS)
        (findings / "heart").touch()
        bench.clean()
        commands = bench.make(kind)
        (bench.work / "commands.json").write_text(json.dumps(commands))
        watch.sandbox, watch.faults = str(bench.folder), []
        outcome = _run_all(commands)
        watch.sandbox = ""
        found = outcome.found or "; ".join(watch.faults) or bench.strays()
        if found:
            name = outcome.name or f"{kind}-files"
            _keep(findings, name, bench.folder, found)
        print(f"case {kind}-{outcome.code}", flush=True)


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError("more than a minute")


@dataclass(slots=True)
class Outcome:
    code: str
    found: str = ""
    name: str = ""


def _run_all(commands: list[list[str]]) -> Outcome:
    code = "0"
    for command in commands:
        outcome = _run(command)
        if outcome.found:
            return outcome
        code = outcome.code
    return Outcome(code)


def _run(command: list[str]) -> Outcome:
    from ridgeline.cli.app import app

    out, err = io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app(command)
        code: Any = 0
    except SystemExit as ending:
        code = ending.code
    except BaseException as error:
        return Outcome("found", traceback.format_exc()[-6000:], _name(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    message = err.getvalue()
    if code not in (0, 1, 2):
        return Outcome("found", f"exit code {code}: {message}", f"code-{code}")
    if code == 2 and (not message.startswith("error: ") or "Traceback" in message):
        return Outcome("found", message, "no-message")
    if code == 2 and "not enough memory" in message and "limit" not in message:
        return Outcome("found", message, f"memory-{command[0]}")
    return Outcome(str(code))


def _name(error: BaseException) -> str:
    """One name for each place in Ridgeline's sources that an exception passed last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/ridgeline/" in f.filename] or frames
    last = own[-1]
    return f"{type(error).__name__}-{Path(last.filename).stem}-{last.name}-{last.lineno}"


class Bench:
    """The sandbox: `work`, where files are made and outputs go, and secrets beside it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        from fuzz import seeds

        self.folder, self.work, self.chance = folder, folder / "work", chance
        self.work.mkdir(parents=True, exist_ok=True)
        self.models, self.machines = seeds.models(), seeds.machines()
        self.program = seeds.program(folder)
        self.arrays = Path(str(seeds.CALIBRATION)).read_bytes()
        self.few = _few(self.arrays)
        (folder / "secret.bin").write_bytes(bytes(4096))

    def clean(self) -> None:
        for path in self.work.rglob("*"):
            if path.is_symlink() or path.is_file():
                path.unlink()
        link = self.work / "link.bin"
        link.symlink_to(self.folder / "secret.bin")
        (self.work / "data.bin").write_bytes(bytes(1000))

    def strays(self) -> str:
        """Files beside the work folder that nobody named."""
        known = {"work", "secret.bin", "seed.rlp"}
        strays = sorted({p.name for p in self.folder.iterdir()} - known)
        return f"wrote {strays}" if strays else ""

    def make(self, kind: str) -> list[list[str]]:
        """Write a mutated file of a kind; the commands to take it through."""
        return getattr(self, f"_{kind}")()

    def _path(self, name: str, data: bytes) -> str:
        (self.work / name).write_bytes(data)
        return str(self.work / name)

    def _model(self) -> list[list[str]]:
        import onnx
        from fuzz.mutations import mutate_bytes, mutate_proto

        data = self.chance.choice(self.models)
        if self.chance.random() < 0.15:
            data = mutate_bytes(data, self.chance)
        else:
            model = onnx.load_model_from_string(data)
            mutate_proto(model, self.chance)
            with contextlib.suppress(Exception):
                data = model.SerializeToString()
        path = self._path("model.onnx", data)
        machine = self.chance.choice(("tiny-8", "tiny-16", "tpu-v1"))
        made = str(self.work / "made")
        run = ["run", path, "-m", machine, "--json", f"{made}.json", "--html", f"{made}.html"]
        more = ["--dump-stages", f"{made}-stages"] if self.chance.random() < 0.1 else []
        if self.chance.random() < 0.2:
            return [["compile", path, "-m", machine, "-o", f"{made}.rlp"]]
        return [run + more]

    def _program(self) -> list[list[str]]:
        from fuzz.mutations import mutate_program

        path = self._path("program.rlp", mutate_program(self.program, self.chance))
        data = self._path("data.npz", self.few)
        return [
            ["check", path],
            ["disassemble", path],
            ["execute", path, "--input", data, "-o", str(self.work / "out.npz")],
            ["simulate", path, "--json", str(self.work / "out.json")],
        ]

    def _arrays(self) -> list[list[str]]:
        from fuzz.mutations import mutate_npz

        path = self._path("data.npz", mutate_npz(self.few, self.chance))
        program = self._path("program.rlp", self.program)
        return [["execute", program, "--input", path, "--labels"]]

    def _machine(self) -> list[list[str]]:
        from fuzz.mutations import mutate_toml
        from fuzz.seeds import _convolution

        text = mutate_toml(self.chance.choice(self.machines), self.chance)
        path = self._path("machine.toml", text.encode(errors="replace"))
        model = self._path("model.onnx", _convolution())
        return [["machines", path], ["run", model, "-m", path]]

    def _report(self) -> list[list[str]]:
        from fuzz.mutations import mutate_bytes, mutate_json

        report = self._report_seed()
        whole = self._path("a.json", report)
        changed = json.dumps(mutate_json(json.loads(report), self.chance)).encode()
        if self.chance.random() < 0.2:
            changed = mutate_bytes(report, self.chance)
        return [["diff", whole, self._path("b.json", changed), "--fail-if", "cycles>+2%"]]

    def _report_seed(self) -> bytes:
        if not hasattr(self, "report"):
            path, out = self._path("seed.rlp", self.program), self.work / "seed.json"
            _run(["simulate", path, "--json", str(out)])
            self.report = out.read_bytes()
        return self.report


def _few(arrays: bytes) -> bytes:
    """Two samples, with labels, as an .npz."""
    import numpy as np

    with np.load(io.BytesIO(arrays)) as loaded:
        image = loaded["image"][:2]
    stream = io.BytesIO()
    np.savez(stream, image=image, labels=np.zeros(2, np.int64))
    return stream.getvalue()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
