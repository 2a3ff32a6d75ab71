"""Transfer learning with frozen early layers as a defense: TL-DMI (Ho et al., CVPR 2024).

The layers that stay as they were hold nothing of the private images; only the later ones are trained on them. This
makes sense for a network that comes pretrained: without that the frozen part stays random. Source: hosytuyen/TL-DMI,
models/classify.py (VGG16_TL), where the index of the last frozen layer is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Generator, nn

from smoothsweep.core.bounds import Count, OpenFraction
from smoothsweep.core.checks import present, require
from smoothsweep.core.defenses.base import Defense, Step, StepLoss
from smoothsweep.core.defenses.strengths import Family, Strength, is_number, value_text
from smoothsweep.core.models.anatomy import anatomy_of, blocks_of, check_layers, parameters_of
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.text import NBSP


def _frozen(parameters: Mapping[str, Any]) -> Strength:
    """Stages or a share of the parameters have an order, parts by name have none."""
    for name in ("stages", "fraction", "layers"):
        if name in parameters:
            order = (float(parameters[name]),) if is_number(parameters[name]) else None
            way = "" if name == "stages" else name
            return Strength(value=f"{name}{NBSP}{value_text(parameters[name])}", order=order, used=(name,), way=way)
    return Strength(value="", order=None, used=())


@dataclass(frozen=True, kw_only=True)
class Freeze(Defense):
    """Hold the first layers still. Exactly one of the three says which.

    The frozen parts' BatchNorm uses and keeps the statistics it came with; the official training lets them drift
    (engine.py).

    Attributes:
        stages: How many of the architecture's stages, from the first on (`core.models.anatomy`).
        fraction: As many leading blocks as hold no more than this fraction of the backbone's parameters.
        layers: Parts of the backbone by name.
    """

    cites: ClassVar[tuple[str, ...]] = ("ho2024model",)
    family: ClassVar[Family | None] = Family(
        name="Freezing (TL-DMI)", word="freeze", parameter="", read=_frozen, starts_plain=True
    )

    stages: Count | None = None
    fraction: OpenFraction | None = None
    layers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        stated = [name for name in ("stages", "fraction", "layers") if getattr(self, name) is not None]
        require(len(stated) == 1, "defense freeze", "one of stages, fraction, layers", ", ".join(stated) or None)
        if self.layers is not None:
            require(len(self.layers) > 0, "defense freeze: layers", "at least one layer", self.layers)

    def check(self, architecture: str) -> None:
        """Raises InputError for a layer the architecture lacks, or if nothing of the backbone would be trained."""
        stages = anatomy_of(architecture).stages
        if self.stages is not None:
            most = len(stages) - 1
            require(self.stages <= most, "defense freeze: stages", f"at most {most} with {architecture}", self.stages)
        if self.layers is not None:
            check_layers(architecture, self.layers)
            every = {name for stage in stages for name in stage}
            expected = f"at least one trained part of {architecture}"
            require(not every <= set(self.layers), "defense freeze: layers", expected, "all of them")

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Take the frozen parts' parameters out of training."""
        self.check(model.architecture)
        for parameter in parameters_of(model, self.frozen_parts(model)):
            parameter.requires_grad_(False)

    def loss(self, step: Step) -> StepLoss:
        """Plain training with the frozen parts in evaluation mode: the loop sets the mode anew for every epoch."""
        modules = dict(step.model.backbone.named_modules())
        for name in self.frozen_parts(step.model):
            part = modules.get(name)
            if isinstance(part, nn.Module):  # a part may also be a bare parameter
                part.eval()
        return super().loss(step)

    def frozen_parts(self, model: Classifier) -> tuple[str, ...]:
        """The names of the frozen parts of the backbone. Raises InputError if `fraction` is too small for a block."""
        if self.layers is not None:
            return self.layers
        if self.stages is not None:
            return tuple(name for stage in anatomy_of(model.architecture).stages[: self.stages] for name in stage)
        return self._leading_blocks(model)

    def _leading_blocks(self, model: Classifier) -> tuple[str, ...]:
        total = sum(parameter.numel() for parameter in model.backbone.parameters())
        frozen, held = [], 0
        for name in blocks_of(model):
            size = sum(parameter.numel() for parameter in parameters_of(model, [name]))
            if held + size > present(self.fraction, "fraction") * total:
                break
            frozen.append(name)
            held += size
        expected = f"enough for the first block of {model.architecture}, which holds {size / total:.2g} of it"
        require(len(frozen) > 0, "defense freeze: fraction", expected, self.fraction)
        return tuple(frozen)
