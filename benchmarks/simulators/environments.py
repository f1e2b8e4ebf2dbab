"""Environments of their own for the simulators that Ridgeline's speed is set beside.

    python benchmarks/simulators/environments.py FOLDER [NAME ...]

Makes FOLDER/scalesim and FOLDER/zigzag: neither works with the versions that Ridgeline pins, and
neither is needed by anything but benchmarks/speed.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    # SCALE-Sim uses what NumPy 2 and pandas 3 no longer have.
    "scalesim": ("scalesim==3.0.0", "numpy<2", "pandas<3", "numba<0.62"),
    # It imports six without asking for it.
    "zigzag": ("zigzag-dse==3.9.1", "six"),
}


def make(name: str, folder: Path) -> Path:
    """The Python of a new environment with the packages of this name."""
    home = folder / name
    python = home / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([str(python), "-m", "pip", "install", *quiet, *PACKAGES[name]], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" or ".join(PACKAGES))
    given = parser.parse_args()
    for name in given.names or PACKAGES:
        print(f"--{name} {make(name, given.folder)}", flush=True)


if __name__ == "__main__":
    main()
