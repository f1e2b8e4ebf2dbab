"""Recipes, observers and calibration: a float graph to a quantised one."""
