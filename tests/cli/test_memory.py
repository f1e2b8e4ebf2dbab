"""The limit of memory: set for the process and named when it is met; what never ends is refused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ridgeline.cli import diff
from ridgeline.errors import RidgelineError
from ridgeline.files import read_whole
from ridgeline.machine import loader
from ridgeline.machine.program import HostSegment, load_program

Run = Callable[..., Any]

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")


def _command(*arguments: Any, memory_gb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", *map(str, arguments)],
        env={**os.environ, "RIDGELINE_MEMORY_GB": memory_gb},
        capture_output=True,
        text=True,
        check=False,
    )


def _wide(path: Path) -> Path:
    """A model of 100 bytes whose random samples take 4 GB."""
    shape = [1, 1 << 25]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "wide", [x], [y])
    opsets = [helper.make_opsetid("", 18)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    return path


@linux
def test_what_needs_more_than_the_limit_ends_with_its_name(tmp_path: Path) -> None:
    made = _command("run", _wide(tmp_path / "wide.onnx"), memory_gb="2")
    assert made.stderr == (
        "error: there is not enough memory (the limit is 2.0 GB, which RIDGELINE_MEMORY_GB"
        " changes). Use a smaller --batch\n"
    )
    assert made.returncode == 2


@linux
@pytest.mark.parametrize(("text", "least", "most"), [("0", -1, -1), ("3.5", 3.5e9, 3.5e9)])
def test_the_limit_that_the_environment_sets(text: str, least: float, most: float) -> None:
    code = (
        "import resource; from ridgeline.cli.memory import limit_memory; limit_memory();"
        " print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RIDGELINE_MEMORY_GB": text},
        capture_output=True,
        text=True,
        check=True,
    )
    assert least <= float(made.stdout) <= most


@linux
def test_without_a_word_the_limit_is_what_is_free() -> None:
    code = (
        "import resource; from ridgeline.cli.memory import limit_memory; limit_memory();"
        " print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "RIDGELINE_MEMORY_GB"}
    made = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1e8 < float(made.stdout) <= 4 * pages


def test_a_program_whose_host_part_names_a_file(
    ridgeline: Run, program: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies where the command is called, and is not read."""
    made = load_program(program)
    number, segment = next(
        (n, s) for n, s in enumerate(made.segments) if isinstance(s, HostSegment)
    )
    model = onnx.load_model_from_string(segment.model)
    tensor = model.graph.initializer[0]
    stored = numpy_helper.to_array(tensor)
    (tmp_path / "secret").write_bytes(np.asarray(stored).tobytes())
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "secret"
    other = replace(segment, model=model.SerializeToString())
    segments = (*made.segments[:number], other, *made.segments[number + 1 :])
    replace(made, segments=segments).save(tmp_path / "p.rlp")
    monkeypatch.chdir(tmp_path)
    result = ridgeline("execute", "p.rlp", "--input", data)
    assert result.err == (
        f"error: a program's host part: initializer '{tensor.name}' keeps its values in another"
        " file\n"
    )
    assert result.code == 2


@linux
def test_an_archive_of_a_few_bytes_that_unpacks_to_gigabytes(tmp_path: Path, shipped: Any) -> None:
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    kind = {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1, 28, 28)}
    np.lib.format.write_array_header_1_0(header, kind)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("image.npy", "w") as member,
    ):
        member.write(header.getvalue() + bytes(1 << 20))
    made = _command("run", shipped.model, "--input", path, memory_gb="2")
    assert made.stderr == (
        f"error: {path}: array 'image' does not fit into the memory (Unable to allocate 3.06 GiB"
        " for an array with shape (822083584,) and data type float32; the limit is 2.0 GB, which"
        " RIDGELINE_MEMORY_GB changes). Give fewer samples, or make the file again if it should be"
        " small\n"
    )
    assert made.returncode == 2


def test_a_file_up_to_its_limit_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_whole(path, 5) == b"12345"
    with pytest.raises(RidgelineError) as found:
        read_whole(path, 4)
    assert str(found.value) == f"{path}: has more than 4 bytes, the limit for such a file"


def test_devices_that_never_end(
    ridgeline: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(diff, "MAX_REPORT_BYTES", 1000)
    monkeypatch.setattr(loader, "MAX_FILE_BYTES", 1000)
    made = ridgeline("diff", "/dev/zero", "/dev/zero")
    assert made.err == "error: /dev/zero: has more than 1,000 bytes, the limit for such a file\n"
    link = tmp_path / "zero.toml"
    link.symlink_to("/dev/zero")
    made = ridgeline("machines", link)
    assert made.err == f"error: {link}: has more than 1,000 bytes, the limit for such a file\n"
    made = ridgeline("check", "/dev/zero")
    assert made.err.startswith("error: /dev/zero: is not a Ridgeline program. Compile")
    np.testing.assert_equal(made.code, 2)
