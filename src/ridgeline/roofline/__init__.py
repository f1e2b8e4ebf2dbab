"""How long a workload takes on a chip: each layer against the roof that it meets first."""
