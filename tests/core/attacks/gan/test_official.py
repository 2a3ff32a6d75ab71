"""Official checkpoints of the attacks' GANs: every tensor finds its place, or one line says which does not."""

import pytest
import torch

from smoothsweep.core.attacks.gan.imported import NETWORKS
from smoothsweep.core.attacks.gan.official import official_networks
from smoothsweep.core.attacks.kept_networks import PART_NETWORKS
from smoothsweep.core.errors import InputError
from tests.official_gans import networks_of, official_file, official_files

pytestmark = pytest.mark.usefixtures("quick_programs")


def brought(part, files):
    return official_networks(part, files["generator"], files.get("discriminator"))


@pytest.mark.parametrize("part", list(NETWORKS))
@pytest.mark.parametrize("size", [{}, {"resolution": 64, "width": 1, "z_dim": 7}])
def test_the_networks_are_the_official_ones_whatever_their_size(part, size, tmp_path):
    wanted, found = networks_of(part, **size), brought(part, official_files(part, tmp_path, **size))
    assert found.keys() == wanted.keys() == NETWORKS[part].keys()
    for name, network in found.items():
        kind, config = NETWORKS[part][name]
        assert type(network) is PART_NETWORKS[kind].load() and PART_NETWORKS[kind].config is config
        assert network.config == wanted[name].config and not network.training
        assert not any(parameter.requires_grad for parameter in network.parameters())
        own = wanted[name].state_dict()
        assert all(torch.equal(own[key], value) for key, value in network.state_dict().items())


def judged(part="general_gan", **changes):
    """A change of the generator's file, or of the discriminator's."""
    return lambda folder: (
        official_files(part, folder)
        | {
            name: official_file(networks_of(part)[name], folder / "changed.tar", **change)
            for name, change in changes.items()
        }
    )


@pytest.mark.parametrize(
    ("part", "files", "message"),
    [
        (
            "general_gan",
            judged(generator={"prefix": "net.module."}),
            r"expected a tensor l1\.0\.weight of 2 axes, there is none; the first is net\.module\.l1\.0\.weight",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s.pop("module.l2_5.0.1.weight")}),
            r"as generator of a general_gan: 1 missing keys, first l2_5\.0\.1\.weight",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s.update(extra=torch.zeros(1))}),
            "1 unknown keys, first extra",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s["module.l1.0.weight"].fill_(float("nan"))}),
            r"l1\.0\.weight: expected finite numbers",
        ),
        (
            "specific_gan",
            lambda folder: official_files("general_gan", folder),
            r"as discriminator of a specific_gan: expected a tensor fc_layer\.weight of 2 axes",
        ),
        (
            "general_gan",
            lambda folder: (
                official_files("general_gan", folder, width=3)
                | {"generator": official_files("specific_gan", folder)["generator"]}
            ),
            r"ls\.0\.weight: expected shape \(2, 3",
        ),
        (
            "general_gan",
            lambda folder: {"generator": official_files("general_gan", folder)["generator"]},
            "--discriminator: expected the checkpoint of the discriminator of a general_gan, got none",
        ),
        (
            "plg_gan",
            lambda folder: official_files("general_gan", folder),
            "--discriminator: expected none: a plg_gan is used without it",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(part, files, message, tmp_path):
    with pytest.raises(InputError, match=message) as refusal:
        brought(part, files(tmp_path))
    assert "\n" not in str(refusal.value)
