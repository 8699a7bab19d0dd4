"""What code names, read off its bytes, is what ``dis`` says."""

from __future__ import annotations

import argparse
import dis
from types import FunctionType

import pytest

from rushlight.graph.reads import named, nested, reads
from rushlight.nn import Module
from rushlight.optim import Adam


def many_names() -> FunctionType:
    """A function whose numbers of names do not fit into a byte."""
    lines = [f"    x.attribute{i} = value{i}.part{i}" for i in range(200)]
    space: dict = {}
    exec("\n".join(["def many(x):", *lines]), space)
    return space["many"]


@pytest.mark.parametrize("cls", [Module, Adam, argparse.ArgumentParser])
def test_methods(cls):
    for function in [f for f in vars(cls).values() if isinstance(f, FunctionType)]:
        for code in nested(function.__code__):
            agree(code)


def test_more_names_than_a_byte_can_count():
    agree(many_names().__code__)
    found = reads(many_names().__code__)
    assert "value199" in found.globals
    assert "part199" in found.attributes
    assert "attribute199" not in found.attributes


def test_globals_attributes_and_imports():
    def function(x):
        import math

        class Inner(argparse.Action):
            def method(self):
                return super().dest

        return math.pi, x.shape, Inner

    found = reads(function.__code__)
    assert "argparse" in found.globals
    assert "math" in found.imports
    assert {"pi", "shape", "Action"} <= found.attributes


def agree(code):
    told = [i for i in dis.get_instructions(code) if i.opcode in dis.hasname]
    assert list(named(code)) == [(i.opname, i.argval) for i in told]
