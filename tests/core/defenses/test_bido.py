import pytest
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from smoothsweep.core.defenses.information import (
    Bido,
    coco,
    coco_operator,
    gaussian_kernel,
    hsic,
    hsic_operator,
    linear_kernel,
)
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import TrainingRecipe


def by_hand(model, images, labels, layers, measure):
    """Sums over the layers of the dependence on images and labels, from outputs taken one by one."""
    operator, value = {"hsic": (hsic_operator, hsic), "coco": (coco_operator, coco)}[measure]
    of_image = operator(gaussian_kernel(images))
    of_label = operator(linear_kernel(F.one_hot(labels, model.num_classes).double()))
    on_input = on_label = 0
    for name in layers:
        outputs = []
        hook = model.backbone.get_submodule(name).register_forward_hook(lambda *a, o=outputs: o.append(a[2].clone()))
        model(images)
        hook.remove()
        hidden = operator(gaussian_kernel(outputs[0]))
        on_input, on_label = on_input + value(hidden, of_image), on_label + value(hidden, of_label)
    return on_input, on_label


def gradient(loss, model):
    parameters = list(model.backbone.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, materialize_grads=True)])


@pytest.mark.parametrize("measure", ["hsic", "coco"])
@pytest.mark.parametrize(
    ("architecture", "layers"),
    [("resnet_small", ("blocks.0", "blocks.1")), ("vgg_small", ("layers.4", "layers.7", "features.layer"))],
)
def test_loss_and_gradient_are_those_of_the_measure_asked_for(architecture, layers, measure, tools):
    defense = Bido(lambda_input=0.3, lambda_label=2.0, measure=measure)
    model = tools.prepared(defense, architecture)
    images, labels = tools.colours(per_class=4)
    result = tools.take_step(defense, model, images, labels)
    on_input, on_label = by_hand(model, images, labels, layers, measure)
    torch.testing.assert_close(result.facts["input_dependence"], on_input.detach(), rtol=1e-4, atol=0)
    torch.testing.assert_close(result.facts["label_dependence"], on_label.detach(), rtol=1e-4, atol=0)
    cross_entropy, penalty = F.cross_entropy(result.logits, labels), 0.3 * on_input - 2.0 * on_label
    torch.testing.assert_close(result.loss, cross_entropy + penalty.float())
    got, wanted = gradient(result.loss - cross_entropy, model), gradient(penalty, model)
    assert wanted.norm() > 0 and (got - wanted).norm() < 0.01 * wanted.norm()
    another = Bido(lambda_input=0.3, lambda_label=2.0, measure={"hsic": "coco", "coco": "hsic"}[measure])
    result = tools.take_step(another, model, images, labels)
    other = gradient(result.loss - F.cross_entropy(result.logits, labels), model)
    assert (other - wanted).norm() > 0.5 * wanted.norm()


def test_facts_name_the_distinct_labels_and_the_label_term_saturates_below_them(tools):
    defense = Bido(lambda_input=0.05, lambda_label=0.5)
    model = tools.prepared(defense)
    images, labels = tools.colours(per_class=4)
    facts = tools.take_step(defense, model, images, labels).facts
    assert facts["distinct_labels"].item() == 4
    assert facts["label_dependence"].item() == pytest.approx(2 * 3, rel=0.05)  # two layers


def test_one_class_in_a_batch_is_refused(tools):
    images, labels = tools.colours(per_class=4)
    for measure in ("hsic", "coco"):
        defense = Bido(lambda_input=0.05, lambda_label=0.5, measure=measure)
        with pytest.raises(InputError, match="defense bido: expected 2 or more classes in a batch, got 1"):
            tools.take_step(defense, tools.prepared(defense), images[:4], labels[:4])


def test_layers_by_name(tools):
    images, labels = tools.colours(per_class=4)
    one = Bido(lambda_input=1, lambda_label=0, layers=("blocks.1",))
    model = tools.prepared(one)
    facts = tools.take_step(one, model, images, labels).facts
    expected, _ = by_hand(model, images, labels, ("blocks.1",), "hsic")
    torch.testing.assert_close(facts["input_dependence"], expected.detach(), rtol=1e-4, atol=0)
    with pytest.raises(InputError, match=r"layers of vgg_small \(layers\.0, .*features\.layer\), got 'blocks\.1'"):
        one.check("vgg_small")
    with pytest.raises(InputError, match="got 'blocks"):
        tools.prepared(one, "resnet18")


def test_batches_of_both_kinds(tools):
    labels = torch.arange(20).repeat(8)
    identities = Bido(lambda_input=1, lambda_label=1)
    batches = identities.sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 8 for batch in batches)
    pairs = Bido(lambda_input=1, lambda_label=1, images_per_class=2).sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 16 for batch in pairs)
    shuffled = Bido(lambda_input=1, lambda_label=1, batches="random").sampler(labels, 32, tools.generator())
    assert len(shuffled) == 5 and max(len(labels[batch].unique()) for batch in shuffled) > 12
    with pytest.raises(InputError, match=r"defense bido: expected a batch_size of two or more .* \(4\), got 30"):
        identities.adjust_recipe(TrainingRecipe(batch_size=30))


def test_hidden_layers_are_seen_through_the_data_parallel_wrapper(tmp_path, tools):
    """One call through it, so that gradients are exchanged; here among one process."""
    defense = Bido(lambda_input=0.05, lambda_label=0.5)
    model = tools.prepared(defense)
    images, labels = tools.colours(per_class=4)
    alone = gradient(tools.take_step(defense, model, images, labels).loss, model)
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model)
        tools.take_step(defense, model, images, labels, forward=wrapped).loss.backward()
    finally:
        torch.distributed.destroy_process_group()
    together = torch.cat([p.grad.flatten() for p in model.backbone.parameters()])
    assert (together - alone).norm() < 1e-3 * alone.norm()
