"""Graph to Program: place, plan, tile, allocate, emit, check."""

from ridgeline.compiler.pipeline import compile

__all__ = ["compile"]
