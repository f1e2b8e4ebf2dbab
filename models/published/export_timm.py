"""Architectures of timm 1.0.31 with random weights, as PyTorch 2.13.0 exports them.

    python models/published/export_timm.py OUT

Needs an environment of its own with torch, timm, onnx and pillow, none of which Ridgeline needs.
timm asks for a few names of torchvision, which is not installed beside this torch: they are stood
in for, since none of these models uses them.
"""

from __future__ import annotations

import enum
import importlib.machinery
import sys
import types
from pathlib import Path

NAMES = (
    "mobilenetv2_100",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "resnet18",
    "regnety_004",
    "vit_tiny_patch16_224",
    "mixer_s32_224",
)
_MODULES = (
    "torchvision",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "torchvision.datasets",
    "torchvision.datasets.folder",
    "torchvision.models",
    "torchvision.models.feature_extraction",
)


class _Anything(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _Interpolation(enum.Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def _stand_in_for_torchvision() -> None:
    for name in _MODULES:
        module = _Anything(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    for name in ("torchvision.transforms", "torchvision.transforms.functional"):
        sys.modules[name].InterpolationMode = _Interpolation  # type: ignore[attr-defined]


def main() -> None:
    _stand_in_for_torchvision()
    import timm
    import torch

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    for name in NAMES:
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False).eval()
        image = torch.zeros(1, 3, 224, 224)
        torch.onnx.export(
            model,
            (image,),
            str(folder / f"{name}.onnx"),
            opset_version=17,
            dynamo=False,
            input_names=["x"],
            output_names=["logits"],
        )
        print(name, flush=True)


if __name__ == "__main__":
    main()
