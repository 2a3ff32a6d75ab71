"""`smoothsweep doctor --calibrate`: every unit is timed by the code of a run, and written for `plan --rates`."""

import json

import pytest
import torch

from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.health import calibrating
from smoothsweep.orchestrator.planning.rates.calibration import read_calibration

TINY = calibrating.Size(
    prior=StyleGAN2Config(resolution=32, z_dim=16, w_dim=16, channel_base=256, channel_max=16),
    crop=24,
    image_size=32,
    networks={"resnet_small": 32},
    rows=2,
    seconds=0.0,
)


def test_it_times_prior_and_networks_and_a_plan_reads_what_it_wrote(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(calibrating, "paper_size", lambda device: TINY)
    place = tmp_path / "rates.json"
    assert main(["doctor", "--calibrate", str(place)]) == 0
    said, found = capsys.readouterr().out, read_calibration(place)
    assert (found.prior.side, found.prior.crop) == (32, 24) and set(found.networks) == {"resnet_small"}
    rate = found.networks["resnet_small"]
    assert f"{1 / rate.train_s:.3g} images/s trained" in said and f"--rates {place}" in said
    assert main(["plan", "table1_facescrub", "--store", str(tmp_path / "s"), "--rates", str(place), "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["calibrated_cost"]
    assert cost["device"] == found.device and "attack" in cost["without_rate"], "of another prior than the paper's"


def test_a_unit_is_the_median_of_what_was_timed_per_row(monkeypatch):
    """A clock of its own: preparing takes 50 s, then 3, 9 and 3 s of two rows each."""
    now, takes = [0.0], iter([50.0, 3.0, 9.0, 3.0])
    monkeypatch.setattr(calibrating.time, "perf_counter", lambda: now[0])

    def work():
        now[0] += next(takes)

    size = calibrating.Size(**{**vars(TINY), "seconds": 14.0})
    assert calibrating._seconds_per_row(work, size, torch.device("cpu")) == pytest.approx(1.5)


def test_the_papers_networks_are_those_of_its_sweeps():
    size = calibrating.paper_size(torch.device("cpu"))
    assert size.prior.resolution == 1024 and size.crop == 800 and size.networks["inception_v3"] == 299


@pytest.mark.parametrize("place", ["nowhere/rates.json", "."])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_timed(tmp_path, monkeypatch, capsys, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibrating, "measure", lambda *_: pytest.fail("timed"))
    assert main(["doctor", "--calibrate", place]) == 2
    assert f"--calibrate: expected a file in a folder that exists, got {place}" in capsys.readouterr().err


def test_it_takes_no_store(capsys):
    assert main(["doctor", "--calibrate", "--store", "s"]) == 2
    assert "--calibrate: expected no --store beside it" in capsys.readouterr().err
