"""`python -m ridgeline`, for where the console script is not on the path."""

from __future__ import annotations

from ridgeline.cli import main

if __name__ == "__main__":
    main()
