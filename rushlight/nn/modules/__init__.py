"""The layers in the modules where PyTorch has them."""

from rushlight.nn.modules import container, flatten, lazy, linear, module, utils

__all__ = ["container", "flatten", "lazy", "linear", "module", "utils"]
