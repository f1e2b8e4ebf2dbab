"""The generated hardware and its co-simulation."""
