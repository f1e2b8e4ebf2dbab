"""Graph to graph: fold, fuse."""
