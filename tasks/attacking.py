"""What an attack's tasks share: the attack itself, its view of the target, and its further inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, overload

from torch import Tensor, nn

from smoothsweep.core.attacks.kept_networks import WEIGHTS, load_network, network_names
from smoothsweep.core.attacks.shared.base import Access, AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import GradientView, View, view_of
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.priors.registry import load_discriminator, load_prior
from smoothsweep.tasks.context import Config, Inputs
from smoothsweep.tasks.external import load_target
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.training import defense_from

EXECUTION_KEYS = ("precision", "compile", "cuda_graphs", "rows_per_batch")


def execution_of(config: Config) -> ExecutionConfig:
    """How the networks run, as the stage's configuration says."""
    return ExecutionConfig(**{key: config[key] for key in EXECUTION_KEYS if key in config})


class OpenTarget:
    """A target on a device, of which views are cut. Networks are prepared once, unless their answers are noisy."""

    def __init__(self, folder: Path | None, config: Config, device: str) -> None:
        """folder: the target's artifact, None for an attack that sees none of it."""
        self._config, self._device = config, device
        self._network: Any = None  # a classifier, or whatever answers
        self._defense: Defense | None = None
        if folder is not None:
            trained = config_of(folder)
            self._network = load_target(folder, trained, device, readout=config.get("readout"))
            self._defense = defense_from(trained)
        self._execution = Execution(execution_of(config), device)
        self._views: dict[Access, View] = {}

    @property
    def steady(self) -> bool:
        """Whether an image gets the same answer whatever was asked before: true of our own networks without noise."""
        noisy = self._defense is not None and self._defense.seed_noise(self._network, 0)
        return not noisy and not isinstance(self._network, ExternalModel)

    @overload
    def view(self, access: Literal["gradients"], *, noise: int | None = None) -> GradientView: ...

    @overload
    def view(self, access: Access, *, noise: int | None = None) -> View: ...

    def view(self, access: Access, *, noise: int | None = None) -> View:
        """What may be seen of it. noise: seed of a noisy readout, which must not depend on what was asked before."""
        if noise is not None and self._defense is not None and self._defense.seed_noise(self._network, noise):
            self._execution, self._views = Execution(execution_of(self._config), self._device), {}
        if access not in self._views:
            classes = self._network.num_classes if self._network is not None else 0
            outside = isinstance(self._network, ExternalModel)
            self._views[access] = view_of(
                PreparedTarget(self._network) if outside else self._network,
                access,
                num_classes=classes,
                image_size=self._config["image_size"],
                execution=self._execution,
                gives=self._network.access if outside else "gradients",
                accepts=self._network.opened.accepts if outside else None,
            )
        return self._views[access]


def attack_inputs_of(needs: tuple[str, ...], config: Config, inputs: Inputs, device: str) -> AttackInputs:
    """What these names stand for, from the artifacts they came as."""
    prior = load_prior(inputs["prior"]).to(device) if "prior" in needs else None
    public = load_tensors(inputs["public"] / "images.safetensors")["images"] if "public" in needs else None
    plain = ("prior", "public", "target", "discriminator")
    return AttackInputs(
        protocol=config["protocol"] if "protocol" in config else None,  # noqa: SIM401 - a part may not be told it
        prior=prior,
        public=public,
        discriminator=(lambda: load_discriminator(inputs["prior"]).to(device)) if "discriminator" in needs else None,
        parts={name: PartTensors(inputs[name]) for name in needs if name not in plain},
        networks={name: PartNetworks(inputs[name], device) for name in needs if name not in plain},
    )


class PartTensors(Mapping[str, Tensor]):
    """The tensors of a part's artifact, one file each, read when they are first looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._read:
            path = self._folder / f"{name}.safetensors"
            if not path.is_file():
                raise KeyError(name)
            self._read[name] = load_tensors(path)[name]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        names = (path.name for path in sorted(self._folder.glob("*.safetensors")))
        return (name.removesuffix(".safetensors") for name in names if not name.endswith(WEIGHTS))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PartNetworks(Mapping[str, nn.Module]):
    """The networks of a part's artifact, frozen and on a device, read when they are first looked at."""

    def __init__(self, folder: Path, device: str) -> None:
        self._folder, self._device = folder, device
        self._read: dict[str, nn.Module] = {}

    def __getitem__(self, name: str) -> nn.Module:
        if name not in self._read:
            if name not in network_names(self._folder):
                raise KeyError(name)
            self._read[name] = load_network(self._folder, name).to(self._device)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(network_names(self._folder))

    def __len__(self) -> int:
        return len(network_names(self._folder))
