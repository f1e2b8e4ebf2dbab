"""Spec sheets: what a chip's maker and others say that it can do, each figure with its source."""
