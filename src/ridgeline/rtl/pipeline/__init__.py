"""A model as a pipeline of its own: a stage for each layer, everything on chip."""
