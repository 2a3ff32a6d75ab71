"""A sweep file that is not there: what there is, and what was probably meant."""

from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("quickstrat", "did you mean 'quickstart'?"),
        ("table1-celeba", "did you mean 'table1_celeba'?"),
        ("zzzzz", ")"),
    ],
)
def test_a_name_that_no_shipped_sweep_has_is_one_line_with_those_there_are(tmp_path, monkeypatch, name, end):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_sweep(Path(name))
    line = str(caught.value)
    assert all(shipped in line for shipped in shipped_sweeps()) and line.endswith(end) and "\n" not in line
    with pytest.raises(InputError) as caught:
        load_sweep(Path("sweeps") / name)
    assert str(caught.value) == f"sweeps/{name}: expected a sweep file, got no such file"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("mine", "mine.yaml"), ("main.yaml", "mine.yaml"), ("sub/other", "other.yaml"), ("sub/othr.yaml", "other.yaml")],
)
def test_a_file_beside_it_is_what_was_meant(tmp_path, monkeypatch, name, meant):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for file in ("mine.yaml", "sub/other.yaml"):
        (tmp_path / file).write_text("name: x\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_sweep(Path(name))
    assert str(caught.value).endswith(f"; did you mean {meant!r}?")
