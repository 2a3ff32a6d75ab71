"""The table of what sweeps of several sizes can tell is printed, with and without simulated sweeps."""

import sys

import pytest

from benchmarks import power


@pytest.mark.parametrize("draws", [0, 2])
def test_every_size_has_a_row(monkeypatch, capsys, draws):
    monkeypatch.setattr(sys, "argv", ["power", "--draws", str(draws), "--seed", "3"])
    power.main()
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(power.SIZES) and head.endswith("found |") is bool(draws)
    assert {row.count("|") for row in (head, rule, *rows)} == {7 if draws else 6}
    told = [float(row.split("|")[5]) for row in rows]
    assert told[1] > told[2] > told[3] and told[1] > told[5] > told[7], "more people and more seeds tell more"
    found = [float(row.split("|")[6].split("%")[0]) for row in rows] if draws else []
    assert all(0 <= share <= 100 for share in found) and any(found) is bool(draws)
