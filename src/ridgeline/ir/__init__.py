"""The graph: values with types, nodes, and the checks that hold between passes."""

from ridgeline.ir.graph import Graph, GraphError, Node, Value
from ridgeline.ir.types import Quant, TensorType

__all__ = ["Graph", "GraphError", "Node", "Quant", "TensorType", "Value"]
