"""What would help a model on a chip: each change made, and the whole costed again."""
