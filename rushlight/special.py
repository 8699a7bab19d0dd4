"""Special functions: ``rl.special``.

>>> rl.special.expit(rl.tensor([0.0, 2.0]))
tensor([0.5000, 0.8808])
"""

from rushlight.ops import ops

SAME_NAME = (
    *("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "log_softmax", "logit"),
    *("logsumexp", "polygamma", "round", "sinc", "softmax", "xlogy"),
)

globals().update(vars(ops.special))
globals().update({name: getattr(ops, name) for name in SAME_NAME})

expit = ops.sigmoid
gammainc, gammaincc, gammaln, psi = ops.igamma, ops.igammac, ops.lgamma, ops.digamma
multigammaln = ops.mvlgamma
