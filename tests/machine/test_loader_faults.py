"""Machine files and settings that are not what they should be: one message that names the key."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from ridgeline.errors import RidgelineError
from ridgeline.machine.loader import load_machine

SETTINGS = {
    "array.macs_per_pe_per_cycle.int8.x=1": "'int8' is a value, not a table of values",
    "array.rows=1\nname='other'": "the value of 'array.rows' holds a line break",
    "array.rows=" + "[" * 5000: "the value of 'array.rows' cannot be read",
    "array.rows=" + "9" * 5000: "array.rows",
    "host_link.bytes_per_s=0.5": "host_link.bytes_per_s: must lie in 1 to 1e+18, not 0.5",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_setting(setting: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        load_machine("tiny-8", [setting])
    assert SETTINGS[setting] in str(caught.value)


EDITS = {
    "a number for a table": ("[vector]", "vector = 5\n[other]", "unknown key 'other'"),
    "sources as a number": ("[sources]", "[[sources]]", "sources: must be a table"),
    "a source as a number": ('queue_depth = "', 'queue_depth = 5 # "', "must be text, not 5"),
    "banks not a number": ("banks = 4\nline_bytes = 8", "banks = nan", "must be a whole number"),
    "size as text": ("bytes = 65536\nbanks = 4\nline_bytes = 8", 'bytes = "x"\nbanks = 4',
                     "must be a whole number, not 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_file(name: str, tmp_path: Path) -> None:
    before, after, text = EDITS[name]
    shipped = (files("ridgeline.machine") / "data" / "tiny-8.toml").read_text(encoding="utf-8")
    assert before in shipped
    path = tmp_path / "m.toml"
    path.write_text(shipped.replace(before, after), encoding="utf-8")
    with pytest.raises(RidgelineError) as caught:
        load_machine(path, ["array.rows=8"] if "line_bytes" not in before else [])
    assert text in str(caught.value)


def test_a_name_that_no_file_can_have() -> None:
    name = "n" * 300
    with pytest.raises(RidgelineError) as caught:
        load_machine(name)
    assert str(caught.value) == f"{name}: cannot be read (File name too long)"
