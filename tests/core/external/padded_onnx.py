"""ONNX written by an encoder of our own, which may write every number longer than it is."""


def varint(value, padding=0):
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F)
        value >>= 7
    groups += [value, *[0] * padding]
    return bytes([*(one | 0x80 for one in groups[:-1]), groups[-1]])


def field(number, content, *, key=0, length=0):
    """A field of bytes (or of a number), its key and length padded by so many bytes."""
    if isinstance(content, int):
        return varint(number << 3, key) + varint(content, length)
    return varint(number << 3 | 2, key) + varint(len(content), length) + content


def tensor(*, outside, where, key=0, length=0, inner=0):
    """A float tensor of three numbers; outside: they lie in the file `where`."""
    dims, kind, name = field(1, 3), field(2, 1), field(8, b"w")
    if not outside:
        return dims + kind + name + field(9, b"\0" * 12)
    entry = field(1, b"location", key=inner, length=inner) + field(2, where.encode())
    return dims + kind + name + field(13, entry, key=key, length=length) + field(14, 1, key=key)


def model(place, content, *, key=0, length=0, twice=False):
    """A model with a tensor's bytes in a place."""

    def put(number, inside):
        return field(number, inside, key=key, length=length)

    def node(attribute=b"", name=b"Constant"):
        return field(2, b"y") + field(4, name) + attribute

    def graph(inside):
        return inside + field(2, b"g")

    attribute = {
        "attribute": put(5, content),
        "attribute_list": put(10, content),
        "sparse_attribute": put(22, put(1, content)),
        "sparse_attributes": put(23, put(2, content)),
        "subgraph": put(6, graph(put(5, content))),
        "subgraphs": put(11, graph(put(15, put(1, content)))),
        "node_of_subgraph": put(6, graph(put(1, node(put(5, field(1, b"value") + put(5, content)))))),
    }
    if place in attribute:
        inside = graph(put(1, node(put(5, field(1, b"value") + attribute[place]))))
    elif place == "initializer":
        inside = graph(put(5, content))
    elif place == "sparse_values":
        inside = graph(put(15, put(1, content)))
    elif place == "sparse_indices":
        inside = graph(put(15, put(2, content)))
    else:
        inside = graph(b"")
    functions = b""
    if place == "function":
        functions = put(25, field(1, b"F") + put(7, node(put(5, field(1, b"value") + put(5, content)))))
    elif place == "function_default":
        functions = put(25, field(1, b"F") + put(11, field(1, b"a") + put(5, content)))
    whole = field(1, 8) + (field(7, graph(b"")) if twice else b"") + put(7, inside) + functions
    return whole + field(8, field(2, 13))


PLACES = (
    "initializer",
    "sparse_values",
    "sparse_indices",
    "attribute",
    "attribute_list",
    "sparse_attribute",
    "sparse_attributes",
    "subgraph",
    "subgraphs",
    "node_of_subgraph",
    "function",
    "function_default",
)
