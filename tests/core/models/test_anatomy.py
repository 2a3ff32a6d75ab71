import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import ANATOMY, anatomy_of, blocks_of, check_layers, parameters_of
from smoothsweep.core.models.classifiers import build_classifier


@pytest.fixture(scope="module", params=sorted(ANATOMY))
def model(request):
    with torch.device("meta"):
        return build_classifier(request.param, 3, protocol="clean")


def test_stages_and_blocks_hold_every_parameter_once(model):
    anatomy = ANATOMY[model.architecture]
    every = {id(p) for p in model.backbone.parameters()}
    for parts in ([name for stage in anatomy.stages for name in stage], blocks_of(model)):
        held = [id(p) for part in parts for p in parameters_of(model, [part])]
        assert len(held) == len(set(held)) and set(held) == every
        assert all(parameters_of(model, [part]) for part in parts)


def test_hidden_layers_skips_and_norms_are_modules(model):
    anatomy = ANATOMY[model.architecture]
    assert len(anatomy.hidden) >= 2
    for name in anatomy.hidden:
        model.backbone.get_submodule(name)
    for block, attribute in (skip for stage in anatomy.skips for skip in stage):
        assert hasattr(model.backbone.get_submodule(block), attribute)
    if anatomy.last_norm is not None:
        assert isinstance(model.backbone.get_submodule(anatomy.last_norm), torch.nn.BatchNorm1d)


@pytest.mark.parametrize("name", ["resnet_small", "vgg_small", "resnet18", "densenet121"])
def test_hidden_layers_come_in_the_order_of_the_forward_pass(name):
    model, seen = build_classifier(name, 3, protocol="clean").eval(), []
    for layer in ANATOMY[name].hidden:
        module = model.backbone.get_submodule(layer)
        module.register_forward_hook(lambda *_, layer=layer: seen.append(layer))
    with torch.no_grad():
        model(torch.zeros(1, 3, 32, 32))
    assert seen == list(ANATOMY[name].hidden)


def test_unknown_names_are_refused_with_the_valid_ones():
    with pytest.raises(InputError, match=r"expected layers of resnet18 \(conv1, bn1, layer1, .*layer4\), got 'layer5'"):
        check_layers("resnet18", ["layer1", "layer5"])
    with pytest.raises(InputError, match=r"architecture: expected one of .*resnet18.*, got 'alexnet'"):
        anatomy_of("alexnet")
