"""Ridgeline: from an ONNX model to a simulated INT8 accelerator and its RTL."""

__version__ = "0.1.0"
