"""The names of tape nodes, which users see in ``grad_fn``: those of PyTorch for everyday ops."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

EXPRESSIONS = """
x+1; x+x; x-1; x-x; x*2; x*x; x/2; x/x; 2/x; x**2; x**2.5; -x; x.abs();
x.exp(); x.log(); x.sqrt(); x.rsqrt(); x.sin(); x.cos(); x.tan(); x.tanh();
x.sigmoid(); x.relu(); x.erf(); x.sum(); x.mean(); x.prod(); x.amax(0); x.var();
x.std(); x.var(0); x.logsumexp(0); x.softmax(0); x.log_softmax(0); x.cumsum(0);
x.cumprod(0); x@x; x.mm(x); x@v; v@v; v.dot(v); v.outer(v); x.mv(v); b.bmm(b*x);
x.transpose(0,1); x.permute(1,0); x.unsqueeze(0); x.squeeze(); x.expand(2,2,2);
x.repeat(2,1); x[0]; x[0:1]; x[i]; x[i,i]; x[x>0.3]; x.select(0,0); x.narrow(0,0,1);
x.unbind(0)[0]; x.diagonal(); x.clone(); x.contiguous(); x.double(); x.to(L.float64);
x.half(); x.sort(0)[0]; x.topk(1)[0]; L.cat([x,x]); L.stack([x,x]);
L.where(x>0.3,x,-x); x.masked_fill(x>0.3,0.); x.gather(0,i[None]); x.index_select(0,i);
x.scatter(0,i[None],x); x.tril(); x.triu(); x.flip(0); x.roll(1,0); L.maximum(x,-x);
L.minimum(x,-x); x.pow(2); x.square(); x.reciprocal(); x.expm1(); x.floor();
x.round(); x.sign(); x.atan2(x+1); x.lerp(x,0.5); x.addcmul(x,x); x.addcdiv(x,x);
x.kthvalue(1,0)[0]; x.real; x.conj(); (x+0j).abs(); x.unfold(0,1,1); x.movedim(0,1);
x.as_strided((2,),(1,)); x.asin(); x.acos(); x.atan(); x.sinh(); x.cosh();
x.digamma(); x.fmod(0.3); x.remainder(0.3); x.trunc(); x.ceil(); x.frac(); x.logit();
x.exp2(); x.log2(); x.log10(); L.cdist(x,x); x.take(i); x.index_add(0,i,x);
x.index_copy(0,i,x); x.scatter_add(0,i[None],x); x.tile(2); x.nan_to_num();
x.logaddexp(x); (x*1).add_(1); (x*1).zero_(); (x*1).exp_();
(x*1).masked_fill_(x>0.3,0)
"""


def name(expression: str, library: Any) -> str:
    x = library.tensor([[0.5, 0.25], [0.75, 0.125]], requires_grad=True)
    v, i = library.tensor([0.5, 0.25], requires_grad=True), library.tensor([0, 1])
    names = {"L": library, "x": x, "v": v, "i": i, "b": library.ones(3, 2, 2)}
    return type(eval(expression, names).grad_fn).__name__


@pytest.mark.parametrize("expression", [e.strip() for e in EXPRESSIONS.split(";")])
def test_a_node_is_called_as_in_pytorch(expression: str) -> None:
    assert name(expression, rl) == name(expression, torch)
