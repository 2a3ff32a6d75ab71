"""The kinds of sweep answer the same questions, so that nobody has to ask whether one has an answer."""

from typing import Annotated, Any, get_args

from pydantic import TypeAdapter

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps import attacks, training
from smoothsweep.sweeps.attacks import MODELS
from smoothsweep.sweeps.base import Model
from smoothsweep.sweeps.schema import SWEEPS

OF_A_KIND = {
    **{f"attack {kind}": (attacks.schema_of(kind), kind) for kind in ATTACKS},
    **{f"defense {kind}": (training.schema_of(kind), kind) for kind in DEFENSES if kind != training.PLAIN_KIND},
    f"defense {training.PLAIN_KIND}": (training.LabelSmoothing, training.PLAIN_KIND),
    **{f"prior {kind}": (MODELS[kind], kind) for kind in PRIORS},
}


def models_in(annotation: Any) -> set[type[Model]]:
    """The models in an annotation, and those in their fields."""
    found = set().union(*map(models_in, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Model):
        found.add(annotation)
        for field in annotation.model_fields.values():
            found |= models_in(field.annotation).union(*map(models_in, field.metadata))
    return found


def test_every_default_is_a_value_that_its_key_takes():
    """Pydantic checks what a file says, not what it leaves out."""
    models = set().union(*map(models_in, SWEEPS.values()), (model for model, _ in OF_A_KIND.values()))
    models |= set().union(*map(models_in, [model for model, _ in OF_A_KIND.values()]))
    checked = 0
    for model in models:
        for name, field in model.model_fields.items():
            if not field.is_required():
                hint = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                value = field.get_default(call_default_factory=True)
                assert TypeAdapter(hint).validate_python(value) == value, (model, name)
                checked += 1
    assert checked > 100
