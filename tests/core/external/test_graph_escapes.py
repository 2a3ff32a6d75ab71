"""Graphs of torch.export that name what is not listed, in every way that it can be written."""

import json

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.exported import GRAPH, check_exported
from smoothsweep.core.external.operators import ATEN
from smoothsweep.core.readers.archives import members_of
from tests.made_programs import Shades, exported

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, 4)).eval()


@pytest.fixture(scope="module")
def program(network, tmp_path_factory):
    return exported(network, tmp_path_factory.mktemp("exported") / "program.pt2")


class Changed:
    """An archive's members with another graph."""

    def __init__(self, members, change):
        self._members, graph = members, json.loads(members.read(GRAPH))
        change(graph["graph_module"]["graph"]["nodes"])
        self._graph = json.dumps(graph).encode()

    def __contains__(self, name):
        return name in self._members

    def __iter__(self):
        return iter(self._members)

    def read(self, name):
        return self._graph if name == GRAPH else self._members.read(name)


def checked(program, change):
    with members_of(program, "a program") as members:
        return check_exported(Changed(members, change), program)


def targets():
    """Every operation that this torch can name in a graph."""
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        yield space, name, f"torch.ops.{space}.{name}.{schema.overload_name or 'default'}"


def test_every_operation_of_this_torch_passes_only_where_it_is_listed(program):
    """With its own overload, in the first node and in the last one."""
    with members_of(program, "a program") as members:
        graph = members.read(GRAPH)
    tried = {True: 0, False: 0}
    for space, name, target in targets():
        listed = space == "aten" and name in ATEN
        tried[listed] += 1
        for index in (0, -1):
            members = Members(graph, index, target)
            if listed and name.isidentifier():
                members.check(program)
            elif not listed:
                with pytest.raises(InputError, match=r"expected operations of torch\.ops\.aten that are listed"):
                    members.check(program)
    assert tried[True] > 1000 and tried[False] > 1000


class Members:
    """One node's target, looked at by what looks at texts."""

    def __init__(self, graph, index, target):
        self.tree = {"nodes": [{"target": "torch.ops.aten.relu.default"}, {"target": "torch.ops.aten.add.Tensor"}]}
        self.tree["nodes"][index]["target"] = target

    def check(self, where):
        from smoothsweep.core.external.exported import _check

        _check(self.tree, str(where))


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten._print.default",
        "torch.ops.aten.manual_seed.default",
        "torch.ops.aten.set_grad_enabled.default",
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.set_data.default",
        "torch.ops.aten.add",
        "torch.ops.aten.add.Tensor\n",
        " torch.ops.aten.add.Tensor",
        "torch.ops.aten.add.Tensor.x",
        "torch.ops.ATEN.add.Tensor",
        "torch.ops.aten.__init__.default",
        "torch.ops.higher_order.cond",
        "torch.manual_seed",
        "torch.ops.aten._set_grad_enabled.default",
        "torch._C._set_grad_enabled",
        "builtins.eval",
        "os.system",
        "",
        "_operator.attrgetter",
        "torch.ops.aten.add.Tensor;import os",
        "\uff54orch.ops.aten.add.Tensor",
    ],
)
@pytest.mark.parametrize("index", [0, -1])
def test_other_targets_are_refused_in_the_archive(program, target, index):
    with pytest.raises(InputError, match="listed as arithmetic"):
        checked(program, lambda nodes: nodes[index].update(target=target))


def test_the_archive_unchanged_passes(program):
    assert checked(program, lambda nodes: None)
