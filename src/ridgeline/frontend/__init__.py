"""ONNX in and out, and the ONNX Runtime executor: only here are onnx and onnxruntime imported."""
