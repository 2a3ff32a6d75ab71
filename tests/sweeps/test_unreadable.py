"""Sweep files that are no text: one line in words."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.load import load_sweep


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "expected a sweep file, got a folder"),
        (b"name: \xff", "expected a readable text file, got: bytes that are no text in UTF-8 from place 6 on"),
    ],
)
def test_what_is_no_text_is_one_line_in_words(content, line, tmp_path):
    path = tmp_path / "a.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError) as said:
        load_sweep(path)
    assert line in str(said.value) and "Errno" not in str(said.value)
