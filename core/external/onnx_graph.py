"""An ONNX file, looked through before anything else reads it: listed operators, and every number in the file itself.

A reader of the protocol buffer's own encoding, so that a key or a length that is written in an unusual way means here
what it means to onnxruntime. Every field of a message must be one that the format has. Source: `onnx/onnx`,
onnx/onnx.proto; https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened

MOST_FIELDS = 2_000_000
MOST_DEPTH = 32

_STANDARD = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState
Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger
ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
HannWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool
MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial Neg
NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu
Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform
RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan
Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus
Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum SwiGLU Swish Tan Tanh TensorScatter ThresholdedRelu
Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
"""
_FUSED = """
Attention BiasGelu BiasSoftmax FastGelu FusedConv FusedGemm FusedMatMul Gelu GemmFastGelu GroupNorm LayerNormalization
MultiHeadAttention NhwcMaxPool QAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv
QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu DequantizeLinear
QuantizeLinear SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul
"""
STANDARD = frozenset(_STANDARD.split())
"""Operators of ONNX's own domain that compute on tensors; not those on texts and encoded images."""
FUSED = frozenset(_FUSED.split())
"""Operators of com.microsoft that onnxruntime's own optimiser writes."""
OPERATORS = {"": STANDARD, "ai.onnx": STANDARD, "com.microsoft": FUSED}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Fields = dict[int, str]
"""Number of a field -> the message that it holds, or "" for a value that is not looked into."""

_PLAIN_MODEL = dict.fromkeys((1, 2, 3, 4, 5, 6, 8, 14, 26), "")
_PLAIN_GRAPH = dict.fromkeys((2, 10, 11, 12, 13, 14, 16), "")
_PLAIN_TENSOR = dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16), "")
_MESSAGES: dict[str, _Fields] = {
    "model": {**_PLAIN_MODEL, 7: "graph", 25: "function"},
    "graph": {**_PLAIN_GRAPH, 1: "node", 5: "tensor", 15: "sparse"},
    "function": {**dict.fromkeys((1, 4, 5, 6, 8, 9, 10, 12, 13, 14), ""), 7: "node", 11: "attribute"},
    "node": {**dict.fromkeys((1, 2, 3, 4, 6, 7, 8, 9, 10), ""), 5: "attribute"},
    "attribute": {
        **dict.fromkeys((1, 2, 3, 4, 7, 8, 9, 13, 14, 15, 20, 21), ""),
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse",
        23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor", 3: ""},
    "tensor": {**_PLAIN_TENSOR, 13: "", 14: ""},
}
_EXTERNAL, _LOCATION = 13, 14  # of a tensor: where in which other file its numbers lie, and whether they do
_OPERATOR, _DOMAIN = 4, 7  # of a node
_FUNCTION_NAME, _FUNCTION_DOMAIN = 1, 10


@dataclass(frozen=True, kw_only=True)
class _Field:
    number: int
    kind: int
    value: int
    """Number in a varint."""
    span: tuple[int, int]
    """Where bytes begin and end."""


class _Bad(ValueError):
    pass


def check_onnx(content: bytes, where: str) -> None:
    """Raise InputError, one line, for a model whose numbers lie in other files, or that asks for more than computing.

    where: how the line begins.
    """
    functions: set[tuple[str, str]] = set()
    nodes: list[tuple[str, str]] = []
    pending, looked_at = [("model", 0, len(content), 0)], 0
    try:
        while pending:
            message, start, end, depth = pending.pop()
            if depth > MOST_DEPTH:
                raise _Bad("messages that are nested too deeply")
            texts: dict[int, str] = {}
            for field in _fields(content, start, end):
                looked_at += 1
                inner = _look(message, field, content, texts)
                if inner:
                    pending.append((inner, *field.span, depth + 1))
                if looked_at > MOST_FIELDS:
                    raise _Bad(f"more than {MOST_FIELDS} fields")
            if message == "node":
                nodes.append((texts.get(_DOMAIN, ""), texts.get(_OPERATOR, "")))
            elif message == "function":
                functions.add((texts.get(_FUNCTION_DOMAIN, ""), texts.get(_FUNCTION_NAME, "")))
    except _Bad as bad:
        raise InputError(f"{where}, got {bad}") from None
    for domain, operator in nodes:
        if operator not in OPERATORS.get(domain, ()) and (domain, operator) not in functions:
            named = f"{domain}.{operator}" if domain else operator
            raise InputError(f"{where} of operators that are listed as arithmetic, got {shortened(named)}")


def _look(message: str, field: _Field, content: bytes, texts: dict[int, str]) -> str:
    """The message that the field holds, "" for a plain value. Notes names in `texts`. Raises _Bad."""
    known = _MESSAGES[message]
    if field.number not in known:
        raise _Bad(f"a field {field.number} of a {message}, which the format does not have, or which is not computing")
    inner = known[field.number]
    if inner and field.kind != _BYTES:
        raise _Bad(f"a field {field.number} of a {message} that is no message")
    if message == "tensor" and (field.number == _EXTERNAL or (field.number == _LOCATION and field.value != 0)):
        raise _Bad("weights that lie in other files: save it without external data")
    if message == "tensor" and field.number == _LOCATION and field.kind != _VARINT:
        raise _Bad("a tensor without a plain location")
    names = {"node": (_OPERATOR, _DOMAIN), "function": (_FUNCTION_NAME, _FUNCTION_DOMAIN)}.get(message, ())
    if field.number in names:
        if field.number in texts or field.kind != _BYTES:
            raise _Bad(f"a {message} with two names")
        texts[field.number] = content[slice(*field.span)].decode("utf-8", "replace")
    return inner


def _fields(content: bytes, position: int, end: int) -> Iterator[_Field]:
    while position < end:
        key, position = _varint(content, position, end)
        number, kind, value, start = key >> 3, key & 7, 0, position
        if kind == _VARINT:
            value, position = _varint(content, position, end)
        elif kind == _BYTES:
            length, start = _varint(content, position, end)
            position = start + length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise _Bad(f"bytes that are no protocol buffer, at {start}")
        if position > end or not 0 < number < 2**29:
            raise _Bad(f"bytes that are no protocol buffer, at {start}")
        yield _Field(number=number, kind=kind, value=value, span=(start, position))


def _varint(content: bytes, position: int, end: int) -> tuple[int, int]:
    """A number and where it ends. Raises _Bad for one that is written longer than it is: readers differ in these."""
    value = shift = 0
    while position < end and shift < 70:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            if (byte == 0 and shift > 7) or value >= 2**64:
                break
            return value, position
    raise _Bad(f"a number that is written in an unusual way, at {position}")
