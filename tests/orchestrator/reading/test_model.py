"""The data model refuses what would become a wrong page."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.reading.numbers.model import (
    Axis,
    ContactSheet,
    PaperReference,
    ReportData,
    SheetRow,
    Tile,
)
from smoothsweep.orchestrator.reading.toy import ToyPanel


def results(**changes):
    row = {"trial": "aa", "seed": 0, "status": "done", "alpha": 0.0, "test_acc": 0.9} | changes
    return pd.DataFrame([row])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": results(status="ok")}, "status: expected one of done"),
        ({"results": results(test_acc=87.0)}, "test_acc is a fraction"),
        ({"results": pd.concat([results(), results()])}, "trial aa repeats seed 0"),
        ({"results": results().drop(columns="alpha")}, "expected a column 'alpha'"),
        ({"per_class": pd.DataFrame({"trial": ["aa"]})}, "expected a column 'class'"),
        ({"per_class": pd.DataFrame({"trial": ["aa"], "class": ["x"], "attack_acc1": [4.0]})}, "attack_acc1"),
        ({"per_class": pd.DataFrame({"trial": ["aa"] * 2, "class": ["x"] * 2})}, "each class once per trial"),
        ({"baseline": {"alhpa": 0}}, "baseline: expected one of alpha, got alhpa"),
        ({"primary": "leak"}, "primary: expected one of test_acc"),
        ({"reasons": {"leak": "?"}}, "reasons: expected one of"),
        ({"protocol": "both"}, "protocol: expected one of clean, paper"),
        ({"paper": PaperReference(table="1", datasets=("celeba",), standings={})}, "a standing in the paper: expected"),
    ],
)
def test_wrong_data_is_refused_with_a_sentence(changes, message):
    fields = {"title": "t", "results": results(), "axes": (Axis(key="alpha"),)}
    with pytest.raises(ValueError, match=message):
        ReportData(**(fields | changes))


def test_tiles_come_with_channels_first_or_last():
    first = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    assert np.array_equal(Tile(image=first).pixels, Tile(image=first.transpose(1, 2, 0)).pixels)
    with pytest.raises(ValueError, match="expected uint8"):
        Tile(image=first.astype(np.float32))
    with pytest.raises(ValueError, match="expected uint8"):
        Tile(image=first[:2])


def test_every_row_of_a_sheet_has_every_column():
    tile = Tile(image=np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(ValueError, match="expected 2 reconstructions, got 1"):
        ContactSheet(title="s", columns=("a", "b"), rows=(SheetRow(name="x", real=tile, reconstructions=(tile,)),))


def test_toy_panels_have_a_square_map_and_a_path():
    with pytest.raises(ValueError, match="expected confidence"):
        ToyPanel(alpha=0, confidence=np.zeros((3, 4)), path=np.zeros((2, 2)), steps=1, distance=0)
    with pytest.raises(ValueError, match="expected path"):
        ToyPanel(alpha=0, confidence=np.zeros((3, 3)), path=np.zeros((2, 3)), steps=1, distance=0)


def test_importing_the_report_loads_no_heavy_library():
    heavy = "{'torch', 'ray', 'mlflow', 'matplotlib'}"
    code = f"import sys, orchestrator.page.render; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
