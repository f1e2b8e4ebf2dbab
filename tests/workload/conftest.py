"""What needs PyTorch is collected where PyTorch is: `make test-peers` installs it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["test_torch.py"]
