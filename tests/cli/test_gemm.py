"""`ridgeline gemm`: a table, JSON, and one message for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ridgeline import predict_gemm

Run = Callable[..., Any]


def _shapes(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_table_and_json_say_what_the_function_says(ridgeline: Run, tmp_path: Path) -> None:
    path = _shapes(tmp_path, "name,K,M,N\nfirst,4096,1,1024\n\nsecond,512,300,64\n")
    made = ridgeline("gemm", "--chip", "h100-sxm5", "--precision", "fp8", path, "--json")
    data = json.loads(made.out)
    wanted = predict_gemm("h100-sxm5", "fp8", 1, 1024, 4096)
    assert data["products"][0]["seconds"] == wanted.seconds
    assert data["products"][0]["operations"] == 2 * 1024 * 4096
    assert [p["m"] for p in data["products"]] == [1, 300]
    shown = ridgeline("gemm", "--chip", "h100-sxm5", "--precision", "fp8", path).out
    assert "H100 SXM5, fp8: fp8 activations and weights" in shown
    assert len(shown.splitlines()) == 6


def test_a_chip_without_measured_products_has_the_least_time(
    ridgeline: Run, tmp_path: Path
) -> None:
    path = _shapes(tmp_path, "m,n,k\n1,1024,4096\n")
    shown = ridgeline("gemm", "--chip", "tpu-v5e", "--precision", "bf16", path).out
    assert "no product was measured on such a chip: the least time, no estimate" in shown
    data = json.loads(
        ridgeline("gemm", "--chip", "tpu-v5e", "--precision", "bf16", path, "--json").out
    )
    assert data["products"][0]["seconds"] is None
    assert data["products"][0]["low_seconds"] > 0


EXAMPLE = "The first line is m,n,k and each other one product, such as 16,4096,4096"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"{{path}}: has no column m or n or k. {EXAMPLE}"),
        ("m,n\n1,2\n", f"{{path}}: has no column k. {EXAMPLE}"),
        ("m,n,k\n", f"{{path}}: holds no product. {EXAMPLE}"),
        (
            "m,n,k\n1,2,3\n1,x,3\n",
            "{path}, line 3: n is 'x'. Give a whole number from 1 to 2147483647",
        ),
        ("m,n,k\n1,2\n", "{path}, line 2: k is ''. Give a whole number from 1 to 2147483647"),
        ("m,n,k\n0,2,3\n", "{path}, line 2: m is '0'. Give a whole number from 1 to 2147483647"),
        ("m,n,k\n-1,2,3\n", "{path}, line 2: m is '-1'. Give a whole number from 1 to 2147483647"),
        ("m,n,k,m\n1,2,3,4\n", "{path}: has several columns m. Leave one of them out"),
        (
            "m,n,k\n1,2,3\n4,5,6,7\n",
            "{path}, line 3: has 4 cells, and the first line 3. Quote a comma within a cell",
        ),
        ("m,n,k\n9999999999,1,1\n", "shape: m is 9999999999. Give a whole number from 1 to"),
    ],
)
def test_faults_of_the_file(ridgeline: Run, tmp_path: Path, text: str, said: str) -> None:
    path = _shapes(tmp_path, text)
    made = ridgeline("gemm", "--chip", "t4", "--precision", "fp16", path)
    assert made.err.startswith("error: " + said.format(path=path))
    assert made.err.count("\n") == 1
    assert made.out == ""
    assert made.code == 2


@pytest.mark.parametrize(
    ("chip", "precision", "said"),
    [
        ("h100", "bf16", "chips: there is no chip 'h100'. Did you mean 'h100-pcie' or 'h100-sxm5'"),
        ("t4", "bf16", "--precision: t4 has no peak in 'bf16'. It has: fp32, fp16, int8, int4"),
        ("t4", "fp17", "--precision: there is no format 'fp17' for products. Did you mean 'fp16'"),
    ],
)
def test_faults_of_the_options(
    ridgeline: Run, tmp_path: Path, chip: str, precision: str, said: str
) -> None:
    path = _shapes(tmp_path, "m,n,k\n1,1,1\n")
    made = ridgeline("gemm", "--chip", chip, "--precision", precision, path)
    assert made.err.startswith("error: " + said)
    assert made.code == 2


def test_a_file_that_is_not_there(ridgeline: Run) -> None:
    made = ridgeline("gemm", "--chip", "t4", "--precision", "fp16", "none.csv")
    assert made.err == "error: none.csv: cannot be read (No such file or directory)\n"
    assert made.code == 2
