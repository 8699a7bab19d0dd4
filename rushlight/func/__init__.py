"""Functions of functions: gradients, Jacobians and batches, freely nested."""

from rushlight.func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from rushlight.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]
