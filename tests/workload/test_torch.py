"""PyTorch modules counted through torch.export, against the true values of other people's table.

Needs the extra `torch`, which `make test-peers` installs and `make test` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.workload.build import workload_of

torch: Any = import_module("torch")
pytestmark = pytest.mark.peer
nn, functional = torch.nn, torch.nn.functional


class _Calls(nn.Module):
    """A module of a function, with the parameters of `held`."""

    def __init__(self, function: Callable[..., Any], *held: Any) -> None:
        super().__init__()
        self.function = function
        self.held = nn.ModuleList(held)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.held, *inputs)


class _Free(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: Any) -> Any:
        return functional.linear(x, self.weight)


class _Experts(nn.Module):
    """Two of eight experts of 32 × 64 × 32 for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(32, 8, bias=False)
        self.up = nn.Parameter(torch.randn(8, 32, 64))
        self.down = nn.Parameter(torch.randn(8, 64, 32))

    def forward(self, x: Any) -> Any:
        share, chosen = self.route(x).softmax(-1).topk(2)
        hidden = torch.relu(torch.einsum("td,tedh->teh", x, self.up[chosen]))
        made = torch.einsum("teh,tehd->ted", hidden, self.down[chosen])
        return (made * share.unsqueeze(-1)).sum(1)


def _attend(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v)


def _attend_grouped(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _thrice(linear: Any, x: Any) -> Any:
    return linear(linear(linear(x)))


def _self_attention(attention: Any, x: Any) -> Any:
    return attention(x, x, x, need_weights=False)[0]


def _first(module: Any, x: Any) -> Any:
    return module(x)[0]


def _zeros(*dims: int) -> Any:
    return torch.zeros(*dims)


CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...], int, int]] = {
    "Linear": (lambda: nn.Linear(3, 8), (_zeros(5, 10, 3),), 1200, 32),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(16, 32, 4, 2, 1, bias=False),
        (_zeros(1, 16, 8, 8),),
        524_288,
        8192,
    ),
    "LSTM": (lambda: _Calls(_first, nn.LSTM(64, 64)), (_zeros(100, 1, 64),), 3_276_800, 33_280),
    "GRU": (lambda: _Calls(_first, nn.GRU(64, 64)), (_zeros(100, 1, 64),), 2_457_600, 24_960),
    "attention": (lambda: _Calls(_attend), (_zeros(1, 12, 64, 64),) * 3, 6_291_456, 0),
    "attention, 8 query and 2 key heads": (
        lambda: _Calls(_attend_grouped),
        (_zeros(1, 8, 64, 64), _zeros(1, 2, 64, 64), _zeros(1, 2, 64, 64)),
        4_194_304,
        0,
    ),
    "attention of one token": (
        lambda: _Calls(_attend),
        (_zeros(1, 12, 1, 64), _zeros(1, 12, 1024, 64), _zeros(1, 12, 1024, 64)),
        1_572_864,
        0,
    ),
    "a @ b": (
        lambda: _Calls(lambda a, b: a @ b),
        (_zeros(4, 32, 64), _zeros(4, 64, 16)),
        131_072,
        0,
    ),
    "a Linear used three times": (
        lambda: _Calls(_thrice, nn.Linear(100, 100, bias=False)),
        (_zeros(1, 100),),
        30_000,
        10_000,
    ),
    "MultiheadAttention": (
        lambda: _Calls(_self_attention, nn.MultiheadAttention(64, 4, batch_first=True)),
        (_zeros(1, 32, 64),),
        655_360,
        16_640,
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
        (_zeros(1, 32, 64),),
        1_179_648,
        33_472,
    ),
    "F.linear with a free Parameter": (_Free, (_zeros(4, 16),), 512, 128),
    "Embedding": (
        lambda: nn.Embedding(1000, 64),
        (torch.zeros(1, 16, dtype=torch.long),),
        0,
        64_000,
    ),
    "mixture of experts": (_Experts, (_zeros(4, 32),), 33_792, 33_024),
}


@pytest.mark.parametrize("case", CASES)
def test_macs_and_parameters(case: str) -> None:
    from ridgeline.frontend.torch_export import onnx_of

    make, arguments, macs, parameters = CASES[case]
    module = make()
    workload = workload_of(read_onnx(onnx_of(module, arguments), weights=False))
    assert (workload.macs, workload.parameters) == (macs, parameters)
    assert parameters == sum(p.numel() for p in module.parameters())
