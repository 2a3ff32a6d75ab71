"""Hours of a plan by measured rates: counted a second time by hand; what has no rate is named."""

import json

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.rates.calibration import (
    Calibration,
    NetworkRate,
    PriorRate,
    read_calibration,
    write_calibration,
)
from smoothsweep.sweeps.load import shipped_sweeps

STEP, DRAWN, TRAINED, BACK, LOOKED = 0.004, 0.001, 0.003, 0.002, 0.0005


def network(side=224, train=TRAINED):
    return NetworkRate(image_size=side, train_s=train, gradient_s=BACK, forward_s=LOOKED)


@pytest.fixture
def rates(tmp_path):
    path = tmp_path / "rates.json"
    names = ("resnet152", "resnext50", "densenet121", "resnet50")
    found = Calibration(
        device="A card of ours",
        torch="2.11",
        date="2026-01-31",
        prior=PriorRate(side=1024, crop=800, step_s=STEP, image_s=DRAWN),
        networks={**{name: network() for name in names}, "inception_v3": network(299, 2 * TRAINED)},
    )
    write_calibration(path, found)
    assert read_calibration(path) == found
    return path


def planned(capsys, tmp_path, sweep, *more):
    assert main(["plan", sweep, "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


def test_table_1_is_priced_stage_by_stage(capsys, tmp_path, rates):
    """530 people; 200 candidates of 50 steps, 100 views; a pool of 2,000; 50 kept of each; 5 recipes, 3 seeds."""
    more = ("--rates", str(rates), "--price", "2", "--json")
    found = json.loads(planned(capsys, tmp_path, "table1_facescrub", *more))
    cost = found["calibrated_cost"]
    attack = 530 * 200 * (50 * (STEP + BACK) + DRAWN + 100 * LOOKED) / 3600
    hours = {
        "attack": 15 * attack,
        "pool": 2000 * DRAWN / 3600,
        "candidates": 15 * 2000 * LOOKED / 3600,
        "judge_evaluator": 15 * 530 * 50 * LOOKED / 3600,
        "knowledge": 15 * 75 * 530 * 50 * TRAINED / 3600,
    }
    assert {name: row["hours"] for name, row in cost["stages"].items()} == pytest.approx(hours)
    assert cost["hours"] == pytest.approx(sum(hours.values())) and cost["dollars"] == pytest.approx(2 * cost["hours"])
    each = {row["stages"]: row["hours_each"] for row in cost["per_images"]}
    target = 100 * 10_000 * TRAINED / 3600  # three recipes of label smoothing with three seeds, and one judge
    assert each == pytest.approx({9: target, 1: 2 * target})
    assert cost["without_rate"]["target"] == 6 and "data" in cost["without_rate"]
    assert found["stated_cost"] is None, "the stated rate is of another device"


def test_the_plan_says_whose_rates_they_are_and_what_has_none(capsys, tmp_path, rates):
    text = planned(capsys, tmp_path, "table1_facescrub", "--rates", str(rates))
    assert "by the rates measured on A card of ours (2026-01-31): about " in text
    assert "  attack: 15 stages, " in text and "per 10,000 images, whose number nobody has counted yet" in text
    (line,) = [line for line in text.splitlines() if "not counted, for want of a rate: " in line]
    assert "private images (2)" in line and "target (6)" in line and "stated, not measured here" not in text


def test_a_plan_of_other_work_has_no_hours_by_these_rates(capsys, tmp_path, rates):
    text = planned(capsys, tmp_path, "table8", "--rates", str(rates))
    assert "by the rates measured on A card of ours (2026-01-31): nothing that can be counted\n" in text
    assert "attack (147)" in text


def test_a_device_whose_rate_suits_nothing_of_the_plan_is_not_passed_over(capsys, tmp_path):
    """Where no device is asked for, nothing is said."""
    said = "--rates H100: no stated rate is of what is to run"
    assert said in planned(capsys, tmp_path, "table12", "--rates", "H100")
    assert "--rates" not in planned(capsys, tmp_path, "table12")
    assert "no stated rate" not in planned(capsys, tmp_path, "table1_facescrub", "--rates", "H100")


def test_twice_the_steps_are_twice_the_descent_and_nothing_else(capsys, tmp_path, rates):
    def attack(*more):
        given = ("--rates", str(rates), "--json", *more)
        return json.loads(planned(capsys, tmp_path, "table1_facescrub", *given))["calibrated_cost"]["stages"]["attack"]

    more = attack("--set", "attack.steps=100")["hours"] - attack()["hours"]
    assert more == pytest.approx(15 * 530 * 200 * 50 * (STEP + BACK) / 3600)


@pytest.mark.parametrize("change", ["attack.pool.crop=700", "recipe.architecture=resnet18"])
def test_work_that_was_not_timed_has_no_hours(capsys, tmp_path, rates, change):
    more = ("--rates", str(rates), "--json", "--set", change)
    cost = json.loads(planned(capsys, tmp_path, "table1_facescrub", *more))["calibrated_cost"]
    assert "attack" not in cost["stages"] and cost["without_rate"]["attack"] == 15


@pytest.mark.parametrize("name", [name for name in shipped_sweeps() if name.startswith(("table1_", "table2_"))])
def test_attacks_of_the_papers_tables_have_hours_by_both_kinds_of_rates(capsys, tmp_path, rates, name):
    ours = json.loads(planned(capsys, tmp_path, name, "--rates", str(rates), "--json"))["calibrated_cost"]
    assert ours["stages"]["attack"]["hours"] > 0 and "attack" not in ours["without_rate"]
    assert json.loads(planned(capsys, tmp_path, name, "--rates", "H200", "--json"))["stated_cost"]["gpu_hours"] > 0


def test_a_stated_rate_is_told_for_other_devices_with_its_ratio(capsys, tmp_path):
    hours = {
        device: json.loads(planned(capsys, tmp_path, "table1_facescrub", "--rates", device, "--json"))["stated_cost"]
        for device in ("A100", "H100", "H200")
    }
    usual = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json"))["stated_cost"]
    assert hours["A100"] == usual
    assert hours["A100"]["gpu_hours"] / hours["H100"]["gpu_hours"] == pytest.approx(3.35 / 2.039)
    assert hours["A100"]["gpu_hours"] / hours["H200"]["gpu_hours"] == pytest.approx(4.8 / 2.039)
    text = planned(capsys, tmp_path, "table1_facescrub", "--rates", "H100")
    assert "15 x about 40 H100-hours" in text and "on one A100 (the authors' issue tracker" in text
    assert "for an H100 divided by 1.64, the ratio of memory bandwidths (3.35 and 2.039 TB/s, NVIDIA's data" in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "--rates: expected one of A100, H100, H200, or a file that exists, got "),
        ("{", "expected rates as `smoothsweep doctor --calibrate` writes them, got: "),
        ('{"format": 2}', "format: "),
        ('{"format": 1, "device": "x"}', "expected"),
    ],
)
def test_rates_that_are_none_are_one_line(capsys, tmp_path, content, said):
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    assert main(["plan", "table1_facescrub", "--store", str(tmp_path / "store"), "--rates", str(path)]) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and not out and not (tmp_path / "store").exists()
