"""A limit on memory: what asks for more than there is fails with a message.

Without one the system grants everything and later ends the process, or another, without a word.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "RIDGELINE_MEMORY_GB"
"""The environment variable that sets another limit, in units of 10^9 bytes; 0 for none."""

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def limit_memory() -> None:
    """Let this process have what is free now, or what the environment says."""
    limit_bytes = _chosen_bytes()
    if not limit_bytes or sys.platform != "linux":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        limit_bytes = min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))


def limit_text() -> str:
    """The limit in words, for a message; "" where there is none."""
    if sys.platform != "linux":
        return ""
    import resource

    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS))
    least = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=0)
    return f"the limit is {least / 1e9:.1f} GB, which {VARIABLE} changes" if least else ""


def _chosen_bytes() -> int:
    text = os.environ.get(VARIABLE, "")
    try:
        return int(float(text) * 1e9) if text else _free_bytes()
    except (ValueError, OverflowError):
        return _free_bytes()


def _free_bytes() -> int:
    """What this computer, or the container, has left; 0 where that cannot be known."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        free_bytes = (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0)) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return 0
    for name in _CGROUPS:
        try:
            free_bytes = min(free_bytes, int(Path(name).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # no such group, or "max"
    return free_bytes
