"""Another value for each field of a sweep's private and public images."""

from functools import partial

from smoothsweep.sweeps.data import MODELS
from tests.core.attacks.examples import REFUSED
from tests.core.data.examples import example
from tests.orchestrator.settings_cases import LABELLED, TINY, UNLABELLED, Cases

PUBLISHED = {"kind": "celeba", "path": "$a/people"}
DATA = {"data": LABELLED, "public": UNLABELLED}

OF_DATA: Cases = {
    "SyntheticData": (
        TINY,
        "data",
        {
            "kind": REFUSED,
            "identities": 5,
            "train_per_class": 9,
            "test_per_class": 5,
            "size": 48,
            "spread": 0.9,
            "seed": 3,
            "samples_per_class": 2,
        },
    ),
    "LabelledData": (
        lambda: TINY(**DATA),
        "data",
        {
            "kind": REFUSED,
            "path": "$b/faces.parquet",
            "size": 48,
            "crop": "stretch",
            "test_fraction": 0.3,
            "split_seed": 3,
            "largest_classes": 3,
            "bits": 12,
            "samples_per_class": 2,
            "on_corrupt": "skip",
        },
    ),
    "PublishedData": (
        lambda: TINY(data=PUBLISHED),
        "data",
        {
            "kind": "celeba64",
            "path": "$b/people",
            "classes": 3,
            "split_seed": 3,
            "samples_per_class": 2,
            "on_corrupt": "skip",
            "pictures": "aligned",
        },
    ),
    "SyntheticPublic": (
        TINY,
        "public",
        {
            "kind": REFUSED,
            "identities": 61,
            "per_identity": 2,
            "size": 48,
            "spread": 0.9,
            "seed": 3,
        },
    ),
    "UnlabelledPublic": (
        lambda: TINY(**DATA),
        "public",
        {
            "kind": REFUSED,
            "path": "$b/others.parquet",
            "size": 48,
            "limit": 20,
            "bits": 12,
            "seed": 3,
        },
    ),
    "PublishedPublic": (
        lambda: TINY(public={"kind": "celeba64", "path": "$a/people", "size": 32}),
        "public",
        {
            "kind": REFUSED,
            "path": "$b/people",
            "size": 48,
        },
    ),
    **{
        model.__name__: (
            partial(TINY, data={"kind": kind, **example(kind).EXAMPLE}),
            "data",
            {"kind": REFUSED, **({"path": "$b/people"} if "path" in model.model_fields else {}), **example(kind).SWEPT},
        )
        for kind, model in MODELS.items()
    },
}
