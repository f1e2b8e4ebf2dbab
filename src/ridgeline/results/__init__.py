"""Rows of layers and the report, independent of how they are shown."""
