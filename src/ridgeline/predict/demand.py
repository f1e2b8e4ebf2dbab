"""What is asked of chips: a mix of models with a batch, a latency, a rate, a power and prices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ridgeline.errors import RidgelineError
from ridgeline.predict.work import Work

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(s|ms|us|µs)")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_PRICE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(/h)?")
LARGEST = 1e12
SECONDS_A_YEAR = 365.25 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Job:
    """A model to be served: `work(batch)` is one run of it, `share` its part of all items."""

    name: str
    work: Callable[[int], Work]
    share: float = 1.0
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What a chip costs: to buy, or for each hour."""

    usd: float
    hourly: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """Limits that are None are not set. `items_per_s` is of the whole mix; watts of one chip."""

    batch: int = 1
    latency_seconds: float | None = None
    items_per_s: float | None = None
    watts: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    years: float = 3.0

    def __post_init__(self) -> None:
        _above_zero(self.latency_seconds, "--latency", "a time such as 10ms")
        _above_zero(self.items_per_s, "--qps", "a rate such as 2000")
        _above_zero(self.watts, "--watts", "a power such as 75")
        _above_zero(self.years, "--years", "a number such as 3")
        if not 1 <= self.batch <= 1_000_000:
            raise RidgelineError(
                f"is {self.batch}", where="--batch", fix="Give a whole number from 1 to 1,000,000"
            )


def _above_zero(value: float | None, option: str, wanted: str) -> None:
    if value is not None and not 0 < value <= LARGEST:
        limit = "at most 1e12" if value > LARGEST else "above 0"
        raise RidgelineError(f"is {value:g}", where=option, fix=f"Give {wanted}, {limit}")


def seconds_of(text: str) -> float:
    """A time such as 10ms, 1.5s or 200us."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        bare = re.fullmatch(r"[0-9.]+", text.strip()) is not None
        fix = f"Say its unit: {text.strip()}ms or {text.strip()}s" if bare else "For example: 10ms"
        raise RidgelineError(f"'{text}' is not a time", where="--latency", fix=fix)
    return float(match[1]) * _SECONDS[match[2]]


def price_of(text: str) -> tuple[str, Price]:
    """CHIP=USD to buy one, or CHIP=USD/h to rent one."""
    name, equals, amount = text.rpartition("=")
    match = _PRICE.fullmatch(amount.strip().removeprefix("$"))
    if not equals or not name.strip() or match is None or not 0 < float(match[1]) < LARGEST:
        raise RidgelineError(
            f"'{text}' is not CHIP=PRICE",
            where="--price",
            fix="For example: l4=2500 to buy, or l4=0.8/h to rent, in US dollars",
        )
    return name.strip(), Price(float(match[1]), match[2] is not None)
