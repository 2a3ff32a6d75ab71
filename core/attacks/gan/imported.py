"""Check the folder of an imported GAN against the needs of an attack. Loads no torch."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.config import PlainGanConfig
from smoothsweep.core.cards import NetworkCard, read_network_card
from smoothsweep.core.checks import require, require_choice

CARD = ".network.json"  # as `core.attacks.kept_networks` leaves them

NETWORKS: dict[str, dict[str, tuple[str, type]]] = {
    "general_gan": {"generator": ("plain_generator", PlainGanConfig), "discriminator": ("critic", PlainGanConfig)},
    "specific_gan": {
        "generator": ("plain_generator", PlainGanConfig),
        "discriminator": ("minibatch_discriminator", PlainGanConfig),
    },
    "plg_gan": {"generator": ("conditional_generator", ConditionalConfig)},
}
"""Part -> name of each of its networks -> kind of that network, and what it is built from."""


def check_imported(folder: str, part: str, image_size: int) -> None:
    """Raise InputError, one line, unless the folder holds the networks of this part for images of that side."""
    for name, card in imported_cards(Path(folder).expanduser(), part).items():
        side = card.config.resolution
        require(side == image_size, f"attack.gan.imported: {folder}: {name}", f"images of {image_size} pixels", side)


def check_imported_classes(folder: str, part: str, classes: int) -> None:
    """Raise InputError for networks whose number of classes differs from the target's.

    A network without classes (a plain generator, a critic) suits every target.
    """
    for name, card in imported_cards(Path(folder).expanduser(), part).items():
        classes_of_gan = card.config.classes
        require(
            classes_of_gan in (0, classes),
            f"attack.gan.imported: {folder}: {name}",
            f"the target's {classes} classes",
            classes_of_gan,
        )


def imported_cards(folder: Path, part: str) -> dict[str, NetworkCard]:
    """The checked card of each network of this part. Raises InputError."""
    require_choice("import gan", part, tuple(NETWORKS))
    what = f"what `smoothsweep import gan` writes of a {part}"
    cards = {}
    for name, (kind, config) in NETWORKS[part].items():
        cards[name] = read_network_card(folder / f"{name}{CARD}", {kind: config}, what)
    return cards
