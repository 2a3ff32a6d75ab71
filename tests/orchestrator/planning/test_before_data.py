"""A plan before the data are there: counts from the data set's card, GPU-hours by a rate that others state."""

import json

import pytest

from smoothsweep.orchestrator.cli import main


def planned(capsys, tmp_path, sweep, *more):
    assert main(["plan", f"sweeps/{sweep}.yaml", "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def at_the_root(repository, monkeypatch):
    monkeypatch.chdir(repository)


def test_table_1_says_gpu_hours_before_anything_is_there(capsys, tmp_path):
    text = planned(capsys, tmp_path, "table1_facescrub")
    line = "attacks: 15 x about 60 A100-hours (106,000 latents of 50 steps each): about 900 GPU-hours, 9 days on four"
    assert line in text.splitlines() and "$" not in text
    assert "the authors' issue tracker, see docs/cluster.md" in text and "training and judging come on top" in text
    assert "counts of facescrub are from its card: 530 identities (the paper, Sec. 4.1)" in text
    assert "prior.path: nothing at " in text and "data.path: nothing at " in text
    assert not (tmp_path / "store").exists()


def test_the_hours_are_the_rate_times_classes_candidates_and_attacks(capsys, tmp_path):
    """530 people, 200 candidates each, under five recipes and three seeds, at 14 h for 25,000."""
    found = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--price", "2"))["stated_cost"]
    assert found["gpu_hours"] == pytest.approx(5 * 3 * 530 * 200 * 14 / 25000)
    assert found["dollars"] == pytest.approx(2 * found["gpu_hours"])
    less = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--set", "classes=[0,1,2,3,4]"))
    assert less["stated_cost"]["gpu_hours"] == pytest.approx(found["gpu_hours"] / 106) and "dollars" not in less


def test_a_smaller_prior_has_no_stated_hours(capsys, tmp_path):
    found = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--set", "attack.pool.crop=400"))
    assert found["stated_cost"] is None


def test_data_that_are_drawn_need_no_card(capsys, tmp_path):
    found = json.loads(planned(capsys, tmp_path, "quickstart", "--json"))
    assert found["cards"] == [] and found["stated_cost"] is None and found["about"] is not None
