"""Renderers: rows to text, Markdown, CSV, JSON and Perfetto."""
