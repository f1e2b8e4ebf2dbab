"""Graph to Program: place, tile, schedule, allocate, emit."""
