"""Distances."""

# ruff: noqa: F401

from rushlight.nn.distance import CosineSimilarity, PairwiseDistance
