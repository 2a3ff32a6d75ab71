"""The published data sets: what is known of each without reading it, or torch. `published.py` has their readers."""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "the paper, Sec. 4.1"
OFFICIAL = "the official lists"
NOWHERE = (None, "neither the paper nor its code records one")


@dataclass(frozen=True, kw_only=True)
class PublishedName:
    """A published data set.

    Attributes:
        title: What the paper calls it.
        cites: Its sources, as `core.citations` has them.
        what: A class of it, in the plural.
        classes, images, training: How many there are, and where the number is recorded.
        images: None where it is not.
        training: Training images of a set with a split of its own, the others are split 90/10 whatever there is.
        judged_as: The set that judges get instead, where it is another.
        of: The set that it is a form of, which no sweep file names.
        pictures: The choice of pictures that is meant where nothing is said.
        people_of: The set of which it may have people.
    """

    title: str
    cites: tuple[str, ...]
    what: str
    classes: tuple[int, str]
    images: tuple[int | None, str] = NOWHERE
    training: tuple[int, str] | None = None
    judged_as: str | None = None
    of: str | None = None
    pictures: str | None = None
    people_of: str | None = None


PUBLISHED_NAMES: dict[str, PublishedName] = {
    "facescrub": PublishedName(title="FaceScrub", cites=("ng2014data",), what="identities", classes=(530, PAPER)),
    "celeba": PublishedName(
        title="CelebA", cites=("liu2015deep",), what="identities", classes=(1000, PAPER), pictures="crops"
    ),
    "celeba64": PublishedName(
        title="CelebA",
        cites=("liu2015deep",),
        what="identities",
        classes=(1000, "the published lists"),
        images=(30_027, "the published lists"),
        training=(27_018, "the published lists"),
        people_of="celeba",
    ),
    "stanford_dogs": PublishedName(
        title="Stanford Dogs",
        cites=("khosla2011novel",),
        what="breeds",
        classes=(120, OFFICIAL),
        images=(20_580, OFFICIAL),
        judged_as="stanford_dogs_cropped",
    ),
    "stanford_dogs_cropped": PublishedName(
        title="Stanford Dogs, cropped",
        cites=("khosla2011novel",),
        what="breeds",
        classes=(120, OFFICIAL),
        images=(20_580, OFFICIAL),
        of="stanford_dogs",
    ),
    "imagenette": PublishedName(
        title="ImageNette",
        cites=("howard2019imagenette",),
        what="classes",
        classes=(10, "the paper, App. C.9"),
        images=(13_394, "the release of 2019, imagenette2"),
        training=(9_469, "the release of 2019, imagenette2"),
    ),
}
PUBLISHED_SETS = tuple(PUBLISHED_NAMES)
NAMED_IN_SWEEPS = tuple(name for name, row in PUBLISHED_NAMES.items() if row.of is None)
"""The kinds of data of a sweep file that are published sets."""
