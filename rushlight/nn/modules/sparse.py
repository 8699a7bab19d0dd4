"""Embeddings."""

# ruff: noqa: F401

from rushlight.nn.embedding import Embedding, EmbeddingBag
