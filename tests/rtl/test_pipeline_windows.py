"""Windows of a pipeline whose rows come in gaps, and those that no stage computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_cases import Network, differences, plan_of, samples_of
from ridgeline.errors import RidgelineError
from ridgeline.rtl.pipeline.layers import layers_of


def test_strides_that_leap_over_rows(tmp_path: Path) -> None:
    """Of a convolution by 2 rows, of one by a row, of a pool by 1: none is freed before it came."""
    net = Network(1, 3, 20, 12)
    net.conv(4, 3, 1, strides=[3, 2])
    net.conv(4, 4, 2, strides=[3, 1], pads=[1, 0, 0, 0])
    net.add("MaxPool", kernel_shape=[1, 2], strides=[2, 2])
    net.conv(2, 4)
    part = net.part(tmp_path / "net.onnx")
    plan = plan_of(part, interval_cycles=480)
    assert differences(part, plan, samples_of(part, 3)) == []


def test_a_padded_average_is_refused(tmp_path: Path) -> None:
    """It is a window as large as the image, whose mean ONNX Runtime takes in float32."""
    net = Network(2, 3, 4, 4)
    net.conv(4, 3)
    net.add("AveragePool", kernel_shape=[4, 4], pads=[1, 1, 0, 0], strides=[2, 2])
    with pytest.raises(RidgelineError, match=r"'averagepool1' .*no stage averages parts of an"):
        layers_of(net.part(tmp_path / "net.onnx"))
