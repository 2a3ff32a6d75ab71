"""Files on disk: whole, replaced in one step, readable."""

import io
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from PIL import Image

from smoothsweep.core import files
from smoothsweep.orchestrator.page.render import render, write_report

FIGURES = """accuracy-leak.svg judges.svg exposure.svg advantage.svg alpha-curves.svg training-curves.svg
sheet-1.png overview.png"""


def test_the_report_and_its_figures_are_written(make_data, tmp_path):
    data = make_data()
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "results.parquet")
    path = write_report(data, tmp_path)
    assert path == tmp_path / "report.html" and path.read_text(encoding="utf-8").endswith("</html>\n")
    assert 'href="results.parquet"' in path.read_text(encoding="utf-8")
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {*FIGURES.split()}
    for name in FIGURES.split():
        content = (tmp_path / "figures" / name).read_bytes()
        if name.endswith(".svg"):
            assert ElementTree.fromstring(content).tag.endswith("svg")
        else:
            assert min(Image.open(io.BytesIO(content)).size) > 200


def test_the_same_data_gives_the_same_page(make_data):
    assert render(make_data()) == render(make_data())


def test_a_failing_write_leaves_the_old_report(make_data, tmp_path, monkeypatch):
    path = write_report(make_data(sheets=()), tmp_path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(make_data(title="new", sheets=()), tmp_path)
    assert path.read_bytes() == before
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]
