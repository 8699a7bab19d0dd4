"""The adaptive softmax."""

# ruff: noqa: F401

from rushlight.nn.adaptive import AdaptiveLogSoftmaxWithLoss, _ASMoutput
