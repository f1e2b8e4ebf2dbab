"""The MAC formats that are built: one line a format."""

from __future__ import annotations

from ridgeline.rtl.mac.bf16 import Bf16
from ridgeline.rtl.mac.format import MacFormat
from ridgeline.rtl.mac.fp8 import Fp8
from ridgeline.rtl.mac.int8 import Int8

MAC_FORMATS: dict[str, MacFormat] = {mac.name: mac for mac in (Int8(), Fp8(), Bf16())}
