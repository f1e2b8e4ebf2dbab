"""`python -m ridgeline.cli` is `ridgeline`."""

from ridgeline.cli import main

main()
