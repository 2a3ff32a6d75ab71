"""The replay of a search on a recorded grid: what it reads, what it may choose, what it counts."""

import csv
import math

import numpy as np
import pytest

from benchmarks.search_quality import compare, main, read_table, replay
from smoothsweep.core.errors import InputError

COLUMNS = ("alpha", "kind", "start", "seed", "test_acc", "embedder_acc1", "device_seconds")


@pytest.fixture
def table(tmp_path):
    """A made-up grid: ramps lose less accuracy than constants for the same leak, later ones least."""
    path = tmp_path / "grid.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for alpha in (-0.4, 0.1):
            for kind, start in (("constant", ""), ("ramp", 0.25), ("ramp", 0.75)):
                cost = abs(alpha) * (1.0 if kind == "constant" else 0.5 - 0.3 * start)
                for seed in (1, 2):
                    rows.writerow([alpha, kind, start, seed, 0.9 - cost + 0.001 * seed, 0.6 + alpha, 10 + seed])
    return path


def test_the_space_is_read_off_the_table(table):
    recorded = read_table(table)
    kind, start = (next(d for d in recorded.space.dimensions if d.key == key) for key in ("kind", "start"))
    assert kind.choices == ("constant", "ramp") and dict(start.when) == {"kind": ("ramp",)}
    assert recorded.space.count == len(recorded.recipes) == 6
    assert recorded.seconds.tolist() == [23.0] * 6
    assert recorded.reference == (pytest.approx(0.5015), pytest.approx(0.7))
    assert recorded.points[0] == pytest.approx([0.5015, 0.2])


@pytest.mark.parametrize("name", [pytest.param("optuna", marks=pytest.mark.slow), "random"])
def test_a_whole_replay_tries_every_recorded_recipe_once(table, name):
    curve = list(replay(read_table(table), name, seed=0, in_flight=3))
    assert len(curve) == 6 and curve[-1] == (pytest.approx(1.0), pytest.approx(1.0))
    assert curve[0][0] == pytest.approx(3 / 6)  # three were begun when the first had finished
    assert [spent for spent, _ in curve] == sorted(spent for spent, _ in curve)
    assert [share for _, share in curve] == sorted(share for _, share in curve)
    assert curve == list(replay(read_table(table), name, seed=0, in_flight=3))


def test_a_recipe_pays_for_each_seed_once_and_counts_when_it_has_met_all(table):
    curve = list(replay(read_table(table), "noise_aware", seed=0, in_flight=1))
    steps = [spent - before for before, (spent, _) in zip([0.0, *(s for s, _ in curve)], curve, strict=False)]
    assert steps[:4] == pytest.approx([11 / 138] * 4) and curve[0][1] == 0.0  # first seeds alone: nothing is found yet
    assert set(np.round(np.array(steps) * 138).tolist()) == {11.0, 12.0}
    assert curve[-1][0] <= 1 + 1e-9 and curve[-1][1] > 0.9
    assert curve == list(replay(read_table(table), "noise_aware", seed=0, in_flight=1))


def test_the_comparison_is_told_in_lines(table, capsys):
    found = compare(read_table(table), seeds=range(2), in_flight=2, searches=["gp", "random"])
    assert all(0 < value <= 1 or value == math.inf for value in found["gp"]["device_time_to_goal"])
    main([str(table), "--seeds", "1", "--reference", "0.5", "0.7"])
    out = capsys.readouterr().out
    assert "6 recorded recipes; reference [0.5, 0.7]" in out and "gp" in out and "tpe" in out and "random" in out


def test_wrong_tables_are_named(table, tmp_path):
    table.write_text(table.read_text() + "0.1,ramp,0.25,3,0.9,0.5,10\n")
    with pytest.raises(InputError, match="expected every recipe under the same seeds in the same order, got others"):
        read_table(table)
    path = tmp_path / "none.csv"
    with pytest.raises(InputError, match="expected a table"):
        read_table(path)
    path.write_text("alpha,seed,test_acc\n0.1,1,0.9\n")
    with pytest.raises(InputError, match="expected axes, seed, test_acc, embedder_acc1, device_seconds"):
        read_table(path)
