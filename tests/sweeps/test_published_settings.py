"""What the paper's tables state of settings, asked of attacks that they have and of those they have not."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.paper_numbers import paper_rows
from smoothsweep.sweeps.paper_settings import published_settings
from smoothsweep.sweeps.resolved import resolved
from tests.sweeps.test_departures import cell, raw


def test_an_attack_that_a_table_does_not_have_is_told_which_it_has():
    attacks = {number.attack for number in paper_rows("8")}
    stated = published_settings("celeba", "8", "ppa")["attack.kind"]
    assert set(stated.split(", ")) == attacks and len(attacks) == 7
    assert published_settings("celeba", "8", "gmi")["attack.kind"] == "gmi"
    assert "attack.kind" not in published_settings("celeba", "8")


def test_an_unknown_table_is_refused():
    with pytest.raises(InputError):
        published_settings("celeba", "99")


def test_mids_readout_is_stated_by_its_protocol_unless_the_sweep_says_one():
    mid = {"recipe": {**raw()["recipe"], "defense": {"kind": "mid", "beta": 0.003}}}
    for protocol, readout in (("paper", "noisy"), ("clean", "mean")):
        assert resolved(cell({**raw(), **mid, "protocol": protocol}))["attack.readout"] == readout
    said = {"attack": {**raw()["attack"], "readout": "mean"}}
    assert resolved(cell({**raw(), **mid, **said, "protocol": "paper"}))["attack.readout"] == "mean"
