"""Constructor arguments of official networks to our configuration; what we could not honour is refused by name.

Source of names and defaults: `NVlabs/stylegan2-ada-pytorch`, training/networks.py; legacy.py for the arguments
that only networks converted from TensorFlow carry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import describe
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

_LARGEST = 2**20
_LAYERS = 64

Arguments = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What an argument may be, in words and as a test, and the official default of an absent one."""

    expected: str
    accepts: Callable[[object], bool]
    default: Any = None


def whole(least: int, most: int = _LARGEST, *, default: int | None = None, optional: bool = False) -> Rule:
    words = f"a whole number from {least} to {most}" + (" or None" if optional else "")
    return Rule(
        expected=words,
        accepts=lambda value: (optional and value is None) or (type(value) is int and least <= value <= most),
        default=default,
    )


def only(wanted: str | float, *, required: bool = False) -> Rule:
    """Exactly this value: our networks know no other. It is the default too, unless `required`."""
    kinds = (int, float) if type(wanted) in (int, float) else (type(wanted),)
    return Rule(
        expected=repr(wanted),
        accepts=lambda value: type(value) in kinds and value == wanted,
        default=None if required else wanted,
    )


def positive(*, default: float | None, optional: bool = False) -> Rule:
    words = "a number > 0" + (" or None" if optional else "")
    return Rule(
        expected=words,
        accepts=lambda value: (optional and value is None) or _is_positive(value),
        default=default,
    )


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < float("inf")


def _is_filter(value: Any) -> bool:
    numbers = type(value) in (list, tuple) and all(type(tap) in (int, float) for tap in value)
    return numbers and list(value) == [1, 3, 3, 1]


def _is_bool(value: object) -> bool:
    return type(value) is bool


_FILTER = Rule(expected="[1, 3, 3, 1]", accepts=_is_filter, default=[1, 3, 3, 1])
_FLAG = Rule(expected="True or False", accepts=_is_bool, default=False)
_UNUSED_SIZE = whole(0, optional=True)
_DICT = Rule(expected="a dict", accepts=lambda value: type(value) is dict, default={})

GENERATOR: dict[str, Rule] = {
    "z_dim": whole(1),
    "c_dim": only(0, required=True),
    "w_dim": whole(1),
    "img_resolution": whole(8),
    "img_channels": only(3, required=True),
    "mapping_kwargs": _DICT,
    "synthesis_kwargs": _DICT,
}
MAPPING: dict[str, Rule] = {
    "num_layers": whole(1, _LAYERS, default=8),
    "embed_features": _UNUSED_SIZE,
    "layer_features": whole(1, optional=True),
    "activation": only("lrelu"),
    "lr_multiplier": only(0.01),
    "w_avg_beta": positive(default=0.995),
}
SYNTHESIS: dict[str, Rule] = {
    "channel_base": whole(1, default=32768),
    "channel_max": whole(1, default=512),
    "num_fp16_res": whole(0, _LAYERS, default=0),
    "conv_clamp": positive(default=None, optional=True),
    "architecture": only("skip"),
    "resample_filter": _FILTER,
    "use_noise": only(True),
    "activation": only("lrelu"),
    "fp16_channels_last": _FLAG,
}
DISCRIMINATOR: dict[str, Rule] = {
    "c_dim": only(0, required=True),
    "img_resolution": whole(8),
    "img_channels": only(3, required=True),
    "architecture": only("resnet"),
    "channel_base": whole(1, default=32768),
    "channel_max": whole(1, default=512),
    "num_fp16_res": whole(0, _LAYERS, default=0),
    "conv_clamp": positive(default=None, optional=True),
    "cmap_dim": _UNUSED_SIZE,
    "block_kwargs": _DICT,
    "mapping_kwargs": _DICT,
    "epilogue_kwargs": _DICT,
}
D_BLOCK: dict[str, Rule] = {
    "activation": only("lrelu"),
    "resample_filter": _FILTER,
    "freeze_layers": whole(0, default=0),
    "fp16_channels_last": _FLAG,
}
D_MAPPING: dict[str, Rule] = {
    # Of a network that labels would need: without labels it is never made.
    "num_layers": whole(0, _LAYERS, default=8),
    "embed_features": _UNUSED_SIZE,
    "layer_features": _UNUSED_SIZE,
    "activation": only("lrelu"),
    "lr_multiplier": positive(default=0.01),
}
EPILOGUE: dict[str, Rule] = {
    "mbstd_group_size": whole(1, default=4, optional=True),
    "mbstd_num_channels": only(1),
    "activation": only("lrelu"),
}


def generator_arguments(stated: Mapping[object, object], where: str) -> Arguments:
    """Every argument of a generator, defaults filled in, nested as the official constructor has them."""
    arguments = _checked(stated, GENERATOR, where)
    for name, rules in (("mapping_kwargs", MAPPING), ("synthesis_kwargs", SYNTHESIS)):
        arguments[name] = _checked(arguments[name], rules, f"{where}: {name}")
    width = arguments["mapping_kwargs"]["layer_features"]
    if width not in (None, arguments["w_dim"]):
        raise InputError(
            f"{where}: mapping_kwargs: layer_features: expected None or w_dim, {arguments['w_dim']}, got {width}"
        )
    return arguments


def discriminator_arguments(stated: Mapping[object, object], where: str) -> Arguments:
    """Every argument of a discriminator, likewise."""
    arguments = _checked(stated, DISCRIMINATOR, where)
    parts = (("block_kwargs", D_BLOCK), ("mapping_kwargs", D_MAPPING), ("epilogue_kwargs", EPILOGUE))
    for name, rules in parts:
        arguments[name] = _checked(arguments[name], rules, f"{where}: {name}")
    return arguments


def shared_config(generator: Arguments, discriminator: Arguments, where: str) -> StyleGAN2Config:
    """One configuration for both networks. Raises InputError if they were not made for each other."""
    synthesis = generator["synthesis_kwargs"]
    pairs = [("img_resolution", generator["img_resolution"], discriminator["img_resolution"])]
    pairs += [(name, synthesis[name], discriminator[name]) for name in ("channel_base", "channel_max", "conv_clamp")]
    for name, ours, theirs in pairs:
        if ours != theirs:
            raise InputError(f"{where}: {name}: G_ema has {describe(ours)}, D has {describe(theirs)}")
    clamp = synthesis["conv_clamp"]
    try:
        return StyleGAN2Config(
            resolution=generator["img_resolution"],
            z_dim=generator["z_dim"],
            w_dim=generator["w_dim"],
            mapping_layers=generator["mapping_kwargs"]["num_layers"],
            channel_base=synthesis["channel_base"],
            channel_max=synthesis["channel_max"],
            conv_clamp=None if clamp is None else float(clamp),
            mbstd_group=discriminator["epilogue_kwargs"]["mbstd_group_size"],
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _checked(stated: Mapping[object, object], rules: Mapping[str, Rule], where: str) -> Arguments:
    if unknown := [name for name in stated if name not in rules]:
        raise InputError(f"{where}: unknown constructor argument {describe(unknown[0])}, expected {', '.join(rules)}")
    arguments: Arguments = {}
    for name, rule in rules.items():
        value = stated.get(name, rule.default)
        if not rule.accepts(value):
            raise InputError(f"{where}: {name}: expected {rule.expected}, got {describe(value)}")
        arguments[name] = value
    return arguments
