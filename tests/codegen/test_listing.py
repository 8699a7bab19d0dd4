"""Kernels as text for people."""

from __future__ import annotations

from rushlight.codegen.listing import listing
from rushlight.codegen.loops import lower
from rushlight.graph.parse import parse
from rushlight.passes.fuse import fuse


def listed(text: str) -> list[str]:
    graph = parse(text)
    names = {node: f"input {i}" for i, node in enumerate(graph.inputs)}
    return [listing(kernel, names) for step in fuse(graph) for kernel in lower(step)]


def test_rows_folds_and_stores() -> None:
    (text,) = listed("""
graph(%0: f32[64,1000]):
  %1: f32[64,1000] = exp(%0)
  %2: f32[64] = sum(%1, dim=(1,), keepdim=False)
  return %2""")
    assert (
        text
        == """\
a: f32[64,1000] = input 0
y: f32[64] = sum
for rx in 64, parallel
  for cx in 1000, vector
    %1 = a[1000·rx + cx]
    %2 = exp(%1)
    %3 = fold add(%2)
  y[rx] = %3"""
    )


def test_a_value_is_written_once_however_often_it_is_used() -> None:
    lines = ["graph(%0: f32[8]):", "  %1: f32[8] = mul(%0, %0)"]
    lines += [f"  %{i}: f32[8] = add(%{i - 1}, %{i - 1})" for i in range(2, 40)]
    (text,) = listed("\n".join([*lines, "  return %39"]))
    assert text.count("\n") == 43


def test_checked_indices_and_updates() -> None:
    start, update = listed("""
graph(%0: f32[5,3], %1: f32[7,3], %2: i64[7]):
  %3: f32[5,3] = index_add(%0, %1, %2, dim=0, alpha=1)
  return %3""")
    assert "y[iy] = %1" in start
    assert "checked(%1 < 5)" in update
    assert "+= " in update
