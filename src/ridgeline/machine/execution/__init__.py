"""How a program is performed fast: instructions that belong together become a few array operations.

A plan keeps the meaning of program order for every program whose instructions stay within their
memories, so nothing here depends on waits or timing. Each instruction's own `apply` is the second
opinion: host memory, device memory and unified buffer end up with the same bytes.
"""

from ridgeline.machine.execution.planner import Plan, plan

__all__ = ["Plan", "plan"]
