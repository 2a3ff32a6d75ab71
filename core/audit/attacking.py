"""Attack an open model in memory; parts such as pools are made once and shared by the attacks that need them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.registry import make_attack, part_kind, part_title
from smoothsweep.core.attacks.shared.base import Attack, AttackInputs, MadePart, Part, Reconstructions
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.audit.model import OpenModel
from smoothsweep.core.audit.portfolio import Reach, portfolio
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import centre_crop, resize, to_uint8
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Decoder, Prior
from smoothsweep.core.priors.registry import card_of
from smoothsweep.core.seeds import combined_seed

OnProgress = Callable[[float, str], None]
"""Called with the finished fraction in [0, 1] and a few words."""

PROTOCOL: Literal["clean"] = "clean"
DECODE_BATCH = 64  # images decoded together, to bound memory


def ignore_progress(fraction: float, text: str) -> None:
    """Ignore progress."""


@dataclass(frozen=True, kw_only=True)
class InvertedClasses:
    """The reconstructions of some classes, in the order of the classes, the best of a class first.

    Attributes:
        images: uint8 [M, 3, R, R].
        labels: The attacked classes, int64 [M].
        scores: The model's confidences, float [M]; None where the attack did not query them.
        w: The latents [M, ...]; None of an attack that searches in none.
        queries: Images that the model received per class, with a share of parts that serve all classes.
        seconds: Duration per class, with a share of such parts.
    """

    attack: Attack
    kind: str
    images: Tensor
    labels: Tensor
    scores: Tensor | None
    w: Tensor | None
    queries: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _CachedPart:
    """A part in memory. key: the settings that determine it, with the keys of the parts it was made from."""

    key: str
    part: MadePart
    queries: int
    seconds: float


class Attacker:
    """An attacker: a model to query, public images, a prior, and the parts made so far. Uses protocol `clean`.

    public: uint8 [N, 3, R, R]. prior_kind: the prior's row in `core.priors.kinds.PRIORS`, which attacks check.
    """

    def __init__(self, model: OpenModel, public: Tensor, prior: Prior, *, prior_kind: str) -> None:
        self.model, self.public, self.prior_kind = model, public, prior_kind
        self.prior = prior.to(model.execution.device) if isinstance(prior, nn.Module) else prior
        self._made: dict[str, _CachedPart] = {}

    def invert(
        self,
        settings: Mapping[str, Any],
        classes: Sequence[int],
        *,
        seed: int,
        on_progress: OnProgress = ignore_progress,
    ) -> InvertedClasses:
        """Attack some classes. The images of a class depend on seed and class, not on the other classes.

        settings: kind and parameters, as `attack` in a sweep file. Raises InputError for wrong settings, an attack that
        needs more access than the model gives, or classes that the model lacks.
        """
        kind, attack = self.attack_of(settings)
        self._check_classes(classes)
        view = self.model.view(attack.access, f"attack {kind}")
        inputs, spent = self._prepare_inputs(attack, kind, on_progress)
        started, queries_before = time.monotonic(), view.queries
        reconstructions = self._batches(attack, inputs, classes, combined_seed([attack.seed, seed]), kind, on_progress)
        latents = [result.w for result in reconstructions if result.w is not None]
        scores = [result.scores for result in reconstructions if result.scores is not None]
        return InvertedClasses(
            attack=attack,
            kind=kind,
            images=self._pictures(attack, inputs, reconstructions),
            w=torch.cat(latents) if latents else None,
            labels=torch.tensor(list(classes)).repeat_interleave(
                torch.tensor([len(result) for result in reconstructions])
            ),
            scores=torch.cat(scores) if len(scores) == len(reconstructions) else None,
            queries=(view.queries - queries_before + sum(made.queries for made in spent)) / len(classes),
            seconds=(time.monotonic() - started + sum(made.seconds for made in spent)) / len(classes),
        )

    def _pictures(self, attack: Attack, inputs: AttackInputs, reconstructions: Sequence[Reconstructions]) -> Tensor:
        """The reconstructions as pictures, uint8 [M, 3, R, R]: the attack's images, else its decoded latents."""
        side, execution = attack.reconstruction_size, self.model.execution
        if attack.leaves_images:
            return torch.cat([_bytes_of(present(result.images, "images").float(), side) for result in reconstructions])
        decoder: Any = inputs.prior if attack.decoder == "prior" else inputs.networks[attack.decoder]["generator"]
        latents = torch.cat([present(result.w, "latents") for result in reconstructions])
        return decode(decoder, latents, attack.crop, side, execution)

    def attack_of(self, settings: Mapping[str, Any]) -> tuple[str, Attack]:
        """Build an attack from its settings and check that model, prior and public images suffice; sends no query.

        Returns the kind and the attack. Raises InputError.
        """
        if "kind" not in settings:
            raise InputError("attack: expected its kind, got none")
        kind = settings["kind"]
        attack = make_attack(kind, **{name: value for name, value in settings.items() if name != "kind"})
        attack.check(image_size=self.model.image_size, prior_kind=self.prior_kind, has_public=True)
        if "prior" in attack.reads:
            attack.check_prior(lambda: card_of(self.prior))
        attack.check_public(len(self.public))
        attack.check_classes(self.model.num_classes)
        refused = {
            "readout": attack.readout,
            "precision": attack.precision,
            "imported": next((part.imported for part in attack.parts if part.imported), None),
        }
        for name, value in refused.items():
            if value is not None:
                raise InputError(f"attack {kind}: {name}: expected none outside of a sweep, got {value}")
        return kind, attack

    def _check_classes(self, classes: Sequence[int]) -> None:
        for label in classes:
            if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < self.model.num_classes:
                raise InputError(f"classes: expected numbers from 0 to {self.model.num_classes - 1}, got {label!r}")
        if not classes or len(set(classes)) < len(classes):
            raise InputError(f"classes: expected one or more, each once, got {list(classes)}")

    def _prepare_inputs(
        self, attack: Attack, kind: str, on_progress: OnProgress
    ) -> tuple[AttackInputs, list[_CachedPart]]:
        """The inputs of an attack, and its parts, which are made where they are missing."""
        made: dict[str, _CachedPart] = {}
        for part in attack.parts:
            made[part.name] = self._part(part, made, kind, on_progress)
        return self._make_inputs(PROTOCOL, made), list(made.values())

    def _make_inputs(self, protocol: Literal["clean"] | None, made: Mapping[str, _CachedPart]) -> AttackInputs:
        return AttackInputs(
            protocol=protocol,
            prior=self.prior,
            public=self.public,
            parts={name: part.part.tensors for name, part in made.items()},
            networks={name: part.part.networks for name, part in made.items()},
        )

    def _part(self, part: Part, earlier: Mapping[str, _CachedPart], kind: str, on_progress: OnProgress) -> _CachedPart:
        row = part_kind(part.name)
        needs = [earlier[name].key if name in earlier else name for name in part.needs]
        key = json.dumps([part.name, dict(part.settings), needs], sort_keys=True)
        if key not in self._made:
            view = self.model.view(row.access if "target" in part.needs else "none", f"attack {kind}")
            started, queries_before = time.monotonic(), view.queries
            part_context = InMemoryContext(
                lambda fraction, text: on_progress(0.0, f"{kind}: {part_title(part.name)} {text}")
            )
            inputs = self._make_inputs(PROTOCOL if row.told_protocol else None, earlier)
            made_part = row.function()(part.settings, inputs, view, part_context)
            self._made[key] = _CachedPart(
                key=key, part=made_part, queries=view.queries - queries_before, seconds=time.monotonic() - started
            )
        return self._made[key]

    def _batches(
        self,
        attack: Attack,
        inputs: AttackInputs,
        classes: Sequence[int],
        seed: int,
        kind: str,
        on_progress: OnProgress,
    ) -> list[Reconstructions]:
        reconstructions: list[Reconstructions] = []
        together = attack.class_batch(PROTOCOL)
        for start in range(0, len(classes), together):
            on_progress(start / len(classes), f"{kind}: class {classes[start]}")
            view = self.model.view(attack.access, f"attack {kind}")
            reconstructions += attack.invert_batch(view, inputs, list(classes[start : start + together]), seed=seed)
        on_progress(1.0, kind)
        return reconstructions


class InMemoryContext:
    """A `core.attacks.shared.base.PartContext` that saves no state: work in memory is never resumed."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress

    def last_state(self) -> None:
        """No saved state: None."""

    def keep_state(self, state: Mapping[str, Any]) -> None:
        """Discard the state, which ends with the process."""

    def progress(self, fraction: float, text: str) -> None:
        self._on_progress(fraction, text)


@torch.no_grad()
def decode(decoder: Decoder, w: Tensor, crop: int | None, side: int | None, execution: Execution) -> Tensor:
    """Decode latents [M, ...] into pictures uint8 [M, 3, R, R] on the CPU. side: R; None: as decoded."""
    synthesize = execution.synthesizer(decoder, crop)

    def pictures(rows: slice) -> Tensor:
        images = synthesize(w[rows].to(execution.device))
        return _bytes_of(images if crop is None else centre_crop(images, crop), side)

    return torch.cat(execution.forward_batch("synthesis", synthesize, most=DECODE_BATCH).run(pictures, len(w)))


def _bytes_of(images: Tensor, side: int | None) -> Tensor:
    """Convert images float [M, 3, R, R] to uint8 on the CPU. side: reduce to this side in pixels; None: keep it."""
    return to_uint8(images if side is None else resize(images, side)).cpu()


def settings_to_try(attacker: Attacker, attacks: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The settings of the attacks to try, with a control among them. Raises InputError for one that cannot run."""
    if isinstance(attacks, str) and attacks not in get_args(Reach):
        raise InputError(f"attacks: expected {', '.join(get_args(Reach))}, or settings of attacks, got {attacks!r}")
    whole, adapted = attacks == "whole", attacks == "adapted"
    settings: list[Mapping[str, Any]] = list(
        portfolio(attacker.model.access, whole=whole, adapted=adapted) if isinstance(attacks, str) else attacks
    )
    made = [attacker.attack_of(setting)[1] for setting in settings]
    if {attack.control for attack in made} != {False, True}:
        raise InputError(
            "attacks: expected one or more, and a control (random_latents) beside, got "
            + (", ".join(str(setting["kind"]) for setting in settings) or "none")
        )
    return settings
