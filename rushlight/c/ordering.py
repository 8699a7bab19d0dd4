"""Sorting, searching and order statistics as calls."""

from __future__ import annotations

from rushlight.c.invocations import Rules

RULES = Rules()
