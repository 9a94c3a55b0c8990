"""Reads the ONNX files that `top-erl export` writes, without the package `onnx`.

An ONNX file is a protobuf message: fields, each a number and a kind (a varint, four or eight bytes, or a length and as
many bytes). Of its messages, only what an exported policy contains is read here; anything else is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError

_TYPES = {1: "<f4", 7: "<i8"}
"""Element types of tensors by their numbers: float and int64."""


@dataclass(frozen=True)
class Node:
    """One operation of a graph."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Operations in order, and the constants they use."""

    nodes: list[Node]
    constants: dict[str, NDArray[Any]]


def read_graph(data: bytes) -> Graph:
    """Read the graph of an ONNX file; raises `UserError` if it is damaged."""
    try:
        nodes, constants = [], {}
        for number, value in _fields(dict(_fields(data))[7]):  # ModelProto.graph
            if number == 1:  # GraphProto.node
                nodes.append(_node(value))
            elif number == 5:  # GraphProto.initializer
                name, tensor = _tensor(value)
                constants[name] = tensor
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise UserError(f"This is not the graph of an exported policy ({error}); export it anew.") from None
    return Graph(nodes, constants)


def _node(data: bytes) -> Node:
    inputs, outputs, kind, attributes = [], [], "", {}
    for number, value in _fields(data):
        if number == 1:
            inputs.append(value.decode())
        elif number == 2:
            outputs.append(value.decode())
        elif number == 4:
            kind = value.decode()
        elif number == 5:
            name, entry = _attribute(value)
            attributes[name] = entry
    return Node(kind, inputs, outputs, attributes)


def _attribute(data: bytes) -> tuple[str, Any]:
    """Name and value: a float, a whole number, or a list of them."""
    name, single, several = "", None, []
    for number, value in _fields(data):
        if number == 1:
            name = value.decode()
        elif number in (2, 3):
            single = value
        elif number == 8:
            several += [value] if isinstance(value, int) else list(_varints(value))
    return name, single if single is not None else several


def _tensor(data: bytes) -> tuple[str, NDArray[Any]]:
    """Name and values of a constant, stored as raw bytes."""
    shape, kind, name, raw = [], 0, "", b""
    for number, value in _fields(data):
        if number == 1:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 2:
            kind = value
        elif number == 8:
            name = value.decode()
        elif number == 9:
            raw = value
    return name, np.frombuffer(raw, dtype=_TYPES[kind]).reshape(shape)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("it is cut short")
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            (value,) = struct.unpack_from("<d" if kind == 1 else "<f", data, at)
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")
        yield number, value


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number of 64 bits at a place, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if not byte & 0x80:
            return value - (1 << 64) if value >> 63 else value, at
