"""`python -m ridgeline.cli` is `ridgeline`."""

from ridgeline.cli import main

if __name__ == "__main__":
    main()
