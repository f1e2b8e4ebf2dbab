"""A chip of a few figures that the user gives: `--peak int8=100T --bandwidth 300G`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ridgeline.chips.sheet import PRECISIONS, Chip, Memory, Peak, Sourced
from ridgeline.errors import RidgelineError, did_you_mean

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+]?[0-9]+)?)\s*([kKMGTP]?)(i?)\s*(.*)")
_DECIMAL = {"": 1e0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"k": 2.0**10, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_OPERATIONS = ("", "ops", "op/s", "ops/s", "flops", "flop/s", "operations/s")
MOST = 1e18
"""Of a number before its prefix."""
LEAST_OPERATIONS_PER_S = 1e6
LEAST_BYTES_PER_S = 1e3
LEAST_BALANCE, MOST_BALANCE = 0.05, 1e6
"""Operations for each byte; those of the catalogue are 1.3 to 12,500."""


def custom_chip(peaks: Sequence[str], bandwidth: str | None, name: str = "yours") -> Chip:
    """A chip with peaks such as "int8=100T" (operations/s) and a memory of "300G" (bytes/s).

    Raises RidgelineError for what is no such figure, naming the option and the form wanted.
    """
    if not peaks:
        raise RidgelineError(
            "is missing", where="--peak", fix="For example: --peak int8=100T --bandwidth 300G"
        )
    found: dict[str, Peak] = {}
    for text in peaks:
        precision, equals, amount = text.partition("=")
        precision = precision.strip()
        if not equals:
            raise RidgelineError(
                f"'{text}' is not PRECISION=PEAK", where="--peak", fix="For example: int8=100T"
            )
        if precision not in PRECISIONS:
            raise RidgelineError(
                f"there is no precision '{precision}'",
                where="--peak",
                fix=did_you_mean(precision, PRECISIONS),
            )
        if precision in found:
            raise RidgelineError(f"'{precision}' is given twice", where="--peak")
        value = _operations_per_s(amount.strip())
        found[precision] = Peak(
            precision, _users(value, "operations/s"), unchecked="a figure of the user"
        )
    memories: tuple[Memory, ...] = ()
    if bandwidth is not None:
        rate = _users(bytes_per_s(bandwidth, "--bandwidth"), "bytes/s")
        memories = (Memory("memory", "main", None, rate),)
        for peak in found.values():
            _check_balance(peak, rate.value)
    return Chip(name, name, "the user", 2026, "user", tuple(found.values()), memories)


def _check_balance(peak: Peak, bytes_per_s: float) -> None:
    """Raise RidgelineError where a prefix of the peak or of the rate must be wrong."""
    balance = peak.dense.value / bytes_per_s
    if not LEAST_BALANCE <= balance <= MOST_BALANCE:
        raise RidgelineError(
            f"{peak.precision} at {peak.dense.value:.3g} operations/s over {bytes_per_s:.3g}"
            f" bytes/s is {balance:.3g} operations for each byte, and sheets have 1 to 12,500",
            where="--peak",
            fix="Check the prefixes of --peak and --bandwidth",
        )


def _users(value: float, unit: str) -> Sourced:
    return Sourced(value, unit, "given on the command line", "2026", "user", "user")


def _operations_per_s(text: str) -> float:
    number, prefix, binary, unit = _parts(text, "--peak", "int8=100T")
    if unit.lower().startswith("mac"):
        raise RidgelineError(
            f"'{text}' counts MACs",
            where="--peak",
            fix="Give operations: 2 for each multiply-accumulate",
        )
    if binary or unit.lower() not in _OPERATIONS:
        raise RidgelineError(
            f"'{text}' is not a number of operations a second",
            where="--peak",
            fix="For example: int8=100T or int8=100TOPS",
        )
    value = number * _DECIMAL[prefix]
    if value < LEAST_OPERATIONS_PER_S:
        raise RidgelineError(
            f"'{text}' is {value:g} operations a second",
            where="--peak",
            fix=f"Add the prefix: {number:g}G or {number:g}T",
        )
    return value


def bytes_per_s(text: str, option: str) -> float:
    """A rate such as 300G, 300GB/s (10^9) or 300GiB/s (2^30); bits are refused."""
    number, prefix, binary, unit = _parts(text.strip(), option, "300G")
    if unit.startswith("b"):
        raise RidgelineError(
            f"'{text}' counts bits",
            where=option,
            fix=f"Give bytes: {number / 8:g}{prefix}B/s",
        )
    if unit not in ("", "B", "B/s", "Bps", "BPS") or (binary and not prefix):
        raise RidgelineError(
            f"'{text}' is not a number of bytes a second",
            where=option,
            fix="GB/s are 10^9, GiB/s are 2^30. For example: 300GB/s or 300GiB/s",
        )
    value = number * (_BINARY if binary else _DECIMAL)[prefix]
    if value < LEAST_BYTES_PER_S:
        raise RidgelineError(
            f"'{text}' is {value:g} bytes a second",
            where=option,
            fix=f"Add the prefix: {number:g}G for {number:g} GB/s",
        )
    return value


def _parts(text: str, option: str, example: str) -> tuple[float, str, str, str]:
    match = _AMOUNT.fullmatch(text)
    if match is None or not 0 < float(match[1]) < MOST:
        raise RidgelineError(
            f"'{text}' is not a number above 0 with a prefix",
            where=option,
            fix=f"For example: {example}",
        )
    return float(match[1]), match[2], match[3], match[4].strip()
