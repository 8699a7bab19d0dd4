"""Rushlight beside its peers. ``python -m benchmarks.run --help`` tells what can be run."""
