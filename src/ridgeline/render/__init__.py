"""Renderers only: a Report as text, Markdown, CSV and JSON, and a Trace for Perfetto."""
