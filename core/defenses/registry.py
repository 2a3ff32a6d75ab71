"""Defenses by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smoothsweep.core.declared import build
from smoothsweep.core.defenses.base import Defense, LabelSmoothing
from smoothsweep.core.defenses.decoys import AtAt, Ssd, TrapMid
from smoothsweep.core.defenses.dp_sgd import DpSgd
from smoothsweep.core.defenses.information import Bido, Mid
from smoothsweep.core.defenses.regularisers import (
    ConfidencePenalty,
    Dropout,
    Focal,
    Loft,
    LogitClipping,
    Mixup,
    RandomErasing,
    WeightDecay,
)
from smoothsweep.core.defenses.structure import Freeze, SkipRemoval
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import refuse_broken, with_plugins

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.models.classifiers import Classifier

DEFENSES: dict[str, type[Defense]] = with_plugins(
    "defenses",
    {
        "label_smoothing": LabelSmoothing,
        "mid": Mid,
        "bido": Bido,
        "freeze": Freeze,
        "random_erasing": RandomErasing,
        "skip_removal": SkipRemoval,
        "dropout": Dropout,
        "weight_decay": WeightDecay,
        "focal": Focal,
        "confidence_penalty": ConfidencePenalty,
        "mixup": Mixup,
        "logit_clipping": LogitClipping,
        "loft": Loft,
        "at_at": AtAt,
        "ssd": Ssd,
        "dp_sgd": DpSgd,
        "trap_mid": TrapMid,
    },
    Defense,
)


def make_defense(name: str, **parameters: Any) -> Defense:
    """The named defense with these parameters; lists (as a file gives them) become tuples.

    Raises InputError for an unknown name or parameter, a missing one, or a value out of range.
    """
    refuse_broken("defenses", name)
    if name not in DEFENSES:
        raise InputError(f"defense: expected one of {', '.join(DEFENSES)}, got {name!r}")
    return build(DEFENSES[name], parameters, what=f"defense {name}", prefix=f"defense {name}: ")


def restore_weights(model: Classifier, defense: Defense, state: Mapping[str, Tensor], *, where: str) -> None:
    """Prepare a freshly built model for `defense` and load the weights it was trained to.

    Raises InputError, one line that begins with `where`, if the weights do not fit: they were trained with another
    defense or architecture.
    """
    from torch import Generator

    from smoothsweep.core.models.checkpoints import fitting_state

    defense.prepare(model, generator=Generator().manual_seed(0))
    name = next(name for name, kind in DEFENSES.items() if kind is type(defense))
    trained = f"{where}: expected weights of {model.architecture} trained with defense {name}"
    model.load_state_dict(fitting_state(state, model.state_dict(), trained))
