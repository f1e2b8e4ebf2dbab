"""What a model has to do, layer by layer: multiply-accumulates, vector operations, bytes."""
