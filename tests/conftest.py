"""What every test may use: the shipped model, other projects' data, and golden texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import hypothesis
import pytest

GOLDEN = Path(__file__).parent / "golden"

# A deadline would make a property fail for the load of the computer; derandomize makes two runs
# of one commit agree.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.load_profile("project")


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """Where the model that Ridgeline ships, and its data, lie."""

    model: Path
    """ONNX: `image` [N, 1, 8, 8] float32 to `probabilities` [N, 10]."""
    test: Path
    """450 held-out `image`s and their `labels`."""
    calibration: Path
    """64 `image`s of the training part."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the expected texts under tests/golden instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/NAME: `golden("digits_fused.txt", str(graph))`."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist; write it with `make golden`")
        expected = path.read_text(encoding="utf-8")
        assert text == expected, f"differs from tests/golden/{name}; if meant, `make golden`"

    return compare


@pytest.fixture(scope="session")
def shipped() -> ShippedModel:
    directory = Path(str(files("ridgeline"))) / "models"
    return ShippedModel(
        model=directory / "digits_cnn.onnx",
        test=directory / "digits_test.npz",
        calibration=directory / "digits_calibration.npz",
    )


@pytest.fixture(scope="session")
def reference() -> Path:
    """The directory of other projects' data, for tests marked `peer`."""
    directory = os.environ.get("RIDGELINE_REFERENCE")
    if directory is None:
        pytest.skip("RIDGELINE_REFERENCE does not name a directory of other projects' data")
    path = Path(directory)
    assert path.is_dir(), f"RIDGELINE_REFERENCE names {directory}, which is not a directory"
    return path
