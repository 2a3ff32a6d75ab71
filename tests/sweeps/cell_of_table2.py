"""The official FaceScrub cell of Table 2, changed, and how it then departs from the paper."""

from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.paper_settings import departures
from smoothsweep.sweeps.schema import InversionSweep

NEGATIVE = {"kind": "label_smoothing", "alpha": -0.05}


def raw(**changes):
    """The official FaceScrub cell of Table 2 under negative smoothing, as a sweep file would give it; changes by dotted
    key, with __ for the dots."""
    given = {
        "name": "t",
        "protocol": "paper",
        "seeds": [42],
        "data": {"kind": "facescrub", "path": "facescrub"},
        "recipe": {"architecture": "resnet152", "defense": dict(NEGATIVE)},
        "prior": {"kind": "folder", "path": "ffhq"},
        "attack": {"pool": {"crop": 800}},
        "judges": {
            "evaluator": {"architecture": "inception_v3", "lr_milestones": [0.8]},
            "embedder": {"name": "facenet"},
            "fidelity": {},
            "knowledge": {},
        },
    }
    for key, value in changes.items():
        set_dotted(given, key.replace("__", "."), value, where="test")
    return given


def cell(given):
    return InversionSweep.model_validate(given)


def departed(given, table="2"):
    return departures(cell(given), "facescrub", table)
