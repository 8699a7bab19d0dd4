"""Losses: what they warn of, what they refuse, and where formulas are delicate."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

inf, nan = math.inf, math.nan


def test_a_warning_of_different_sizes_points_at_the_user() -> None:
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, nn.MSELoss()):
        with pytest.warns(
            UserWarning, match=r"Using a target size .*\[3\].* \(.*\[2, 3\]\)"
        ) as seen:
            assert loss(rl.zeros(2, 3), rl.ones(3)).shape == ()
        assert seen[0].filename == __file__


def test_reductions_of_the_past() -> None:
    x, y = rl.tensor([1.0, 2.0]), rl.tensor([0.0, 0.0])
    with pytest.warns(UserWarning, match="please use reduction='sum' instead") as seen:
        assert F.l1_loss(x, y, size_average=False).item() == 3
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.l1_loss(x, y, reduce=False).tolist() == [1, 2]
    with pytest.warns(UserWarning, match="please use reduction='mean' instead") as seen:
        assert nn.L1Loss(size_average=True).reduction == "mean"
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="'elementwise_mean' is deprecated"):
        assert F.l1_loss(x, y, reduction="elementwise_mean").item() == 1.5


def test_an_unknown_reduction_is_refused_when_the_loss_is_computed() -> None:
    layer = nn.CrossEntropyLoss(reduction="average")
    with pytest.raises(ValueError, match=r"^average is not a valid value for reduction"):
        layer(rl.zeros(1, 2), rl.tensor([0]))


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("label", [5, 7, -1, -101])
def test_a_label_that_is_no_class_is_named(loss: object, label: int) -> None:
    with pytest.raises(IndexError, match=rf"^Target {label} is out of bounds\."):
        loss(rl.zeros(3, 5), rl.tensor([0, label, 1]))


def test_all_labels_ignored_give_nan_and_no_gradient() -> None:
    for loss in (F.cross_entropy, F.nll_loss):
        x = rl.randn(3, 4, requires_grad=True)
        y = loss(x, rl.full((3,), -100))
        y.backward()
        assert math.isnan(y.item())
        assert not x.grad.any()


def test_ignored_rows_do_not_count_however_infinite() -> None:
    x = rl.tensor([[-inf, 0.0], [1.0, 1.0]], requires_grad=True)
    loss = F.cross_entropy(x, rl.tensor([-100, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert x.grad.tolist() == [[0, 0], [0.5, -0.5]]


def test_large_logits_neither_overflow_nor_lose_their_difference() -> None:
    x = rl.tensor([[1e4, 1e4 - 1], [-3e4, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, rl.tensor([1, 0]), reduction="none")
    loss.sum().backward()
    np.testing.assert_allclose(loss.detach().numpy(), [1.3132616, 3e4], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [[0.7310586, -0.7310586], [-1, 1]], rtol=1e-6)


def test_a_certain_prediction_has_no_loss_below_zero() -> None:
    assert F.cross_entropy(rl.tensor([[40.0, 0.0]]), rl.tensor([0])).item() == 0
    z = rl.tensor([30.0, 60.0, 80.0])
    loss = F.binary_cross_entropy_with_logits(z, rl.ones(3), reduction="none")
    np.testing.assert_allclose(loss.numpy(), np.exp(-z.double().numpy()), rtol=1e-5)


def test_cross_entropy_of_one_hot_probabilities_is_that_of_labels() -> None:
    x = rl.randn(6, 5, dtype=rl.float64)
    labels = rl.tensor([0, 4, 2, 2, 1, 3])
    weight = rl.rand(5, dtype=rl.float64)
    hot = rl.eye(5, dtype=rl.float64)[labels]
    for smoothing in (0.0, 0.3):
        for w in (None, weight):
            a = F.cross_entropy(x, labels, w, reduction="sum", label_smoothing=smoothing)
            b = F.cross_entropy(x, hot, w, reduction="sum", label_smoothing=smoothing)
            np.testing.assert_allclose(a.numpy(), b.numpy())


def test_cross_entropy_goes_backward_three_times() -> None:
    x = rl.randn(3, 4, dtype=rl.float64, requires_grad=True)
    labels = rl.tensor([0, 3, 1])

    def second(x: rl.Tensor) -> rl.Tensor:
        y = F.cross_entropy(x, labels, label_smoothing=0.1)
        (g,) = rl.autograd.grad(y, x, create_graph=True)
        (h,) = rl.autograd.grad(g.square().sum(), x, create_graph=True)
        return h

    assert rl.autograd.gradcheck(second, (x,))


def test_cross_entropy_twice_backward_through_a_kept_graph() -> None:
    x = rl.randn(3, 4, requires_grad=True)
    y = F.cross_entropy(x, rl.tensor([0, 3, 1]))
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert rl.equal(x.grad, 2 * once)


def test_labels_of_images_and_sequences() -> None:
    x = rl.randn(2, 3, 4, 5, dtype=rl.float64)
    labels = rl.randint(0, 3, (2, 4, 5))
    flat = F.cross_entropy(x.permute(0, 2, 3, 1).reshape(-1, 3), labels.reshape(-1))
    np.testing.assert_allclose(F.cross_entropy(x, labels).numpy(), flat.numpy())
    strided = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    np.testing.assert_allclose(F.cross_entropy(strided, labels).numpy(), flat.numpy())
    np.testing.assert_allclose(
        F.nll_loss(strided.log_softmax(1), labels).numpy(), flat.numpy(), rtol=1e-12
    )


def test_half_precision_is_computed_in_float32() -> None:
    for dtype in (rl.float16, rl.bfloat16):
        x = rl.randn(4, 3).to(dtype).requires_grad_()
        labels = rl.tensor([0, 1, 2, 0])
        y = F.cross_entropy(x, labels)
        y.backward()
        assert y.dtype is x.grad.dtype is dtype
        exact = F.cross_entropy(x.detach().double(), labels).item()
        assert y.item() == pytest.approx(exact, rel=1e-2)
        assert F.mse_loss(x, x.detach() + 1).dtype is dtype
        assert F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()).dtype is dtype


def test_the_linear_cross_entropy_in_chunks_is_the_same() -> None:
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    x = rl.randn(10, 4, dtype=rl.float64, requires_grad=True)
    layer = nn.LinearCrossEntropyLoss(4, 7, bias=True, dtype=rl.float64, ignore_index=2)
    labels = rl.randint(0, 7, (10,))
    for reduction in ("mean", "sum", "none"):
        layer.reduction = reduction
        found = []
        for layer.options in (None, options):
            y = layer(x, labels).sum()
            grads = rl.autograd.grad(y, [x, layer.linear.weight, layer.linear.bias])
            found.append([y.detach(), *grads])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)
    with pytest.warns(UserWarning, match="``options`` ignored"):
        F.linear_cross_entropy(x, layer.linear.weight, labels, label_smoothing=0.1, options=options)


def test_options_of_chunks_are_checked() -> None:
    for bad in ({"acc_policy": "x"}, {"chunking_method": "rows"}, {"batch_chunk_size": 0}):
        with pytest.raises(ValueError, match=r"invalid|must be positive"):
            nn.LinearCrossEntropyOptions(**bad)
    both = nn.LinearCrossEntropyOptions(batch_chunk_size=3, chunking_method="aspect_ratio")
    with pytest.raises(ValueError, match="pass only one"):
        both.rows(100, 10, 1000)


def test_binary_cross_entropy_is_finite_at_the_ends() -> None:
    p = rl.tensor([0.0, 1.0, 0.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, rl.tensor([1.0, 0.0, 0.0]), reduction="none")
    assert loss.tolist() == [100, 100, 0]
    loss.sum().backward()
    assert rl.isfinite(p.grad).all()


@pytest.mark.parametrize("bad", [nan, -0.1, 1.1])
def test_binary_cross_entropy_refuses_what_is_no_probability(bad: float) -> None:
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(rl.tensor([0.5, bad]), rl.tensor([0.0, 1.0]))


def test_kl_div_advises_batchmean() -> None:
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(rl.zeros(2), rl.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.kl_div(rl.zeros(2), rl.ones(2), reduction="batchmean")


def test_kl_div_of_a_class_that_never_happens() -> None:
    x = rl.tensor([0.5, 0.5]).log().requires_grad_()
    y = F.kl_div(x, rl.tensor([0.0, 1.0]), reduction="sum")
    y.backward()
    assert y.item() == pytest.approx(math.log(2))
    assert x.grad.tolist() == [0, -1]


def test_huber_and_smooth_l1_are_one_curve() -> None:
    x, t = rl.randn(20, dtype=rl.float64) * 3, rl.zeros(20, dtype=rl.float64)
    for beta in (0.5, 1.0, 2.0):
        smooth = F.smooth_l1_loss(x, t, beta=beta, reduction="none")
        huber = F.huber_loss(x, t, delta=beta, reduction="none")
        np.testing.assert_allclose((smooth * beta).numpy(), huber.numpy())


def test_weights_of_elements() -> None:
    x, t, w = rl.tensor([1.0, 2.0]), rl.zeros(2), rl.tensor([3.0, 1.0])
    assert F.mse_loss(x, t, weight=w).item() == 7 / 4
    assert F.l1_loss(x, t, weight=w).item() == 5 / 4
    assert F.huber_loss(x, t, weight=w).item() == 1.5
    with pytest.raises(ValueError, match="must have the same size"):
        F.mse_loss(x, t, weight=rl.ones(3))


def test_the_soft_margin_does_not_overflow() -> None:
    x = rl.tensor([-1000.0, 1000.0], requires_grad=True)
    y = F.soft_margin_loss(x, rl.ones(2), reduction="none")
    y.sum().backward()
    assert y.tolist() == [1000, 0]
    assert x.grad.tolist() == [-1, 0]


def test_margins_must_be_positive() -> None:
    for make in (nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss):
        with pytest.raises(
            ValueError, match="expected margin to be greater than 0, got -1 instead"
        ):
            make(margin=-1)
    with pytest.raises(ValueError, match="only p == 1 and p == 2"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(ValueError, match="got 2D instead"):
        nn.MultiMarginLoss(weight=rl.ones(1, 2))
    with pytest.raises(TypeError, match="delta must be a float or int"):
        nn.HuberLoss(delta="1")


def test_labels_after_the_first_minus_one_do_not_count() -> None:
    x = rl.tensor([[0.1, 0.2, 0.4, 0.8]])
    a = F.multilabel_margin_loss(x, rl.tensor([[3, 0, -1, 1]]))
    b = F.multilabel_margin_loss(x, rl.tensor([[3, 0, -1, -1]]))
    assert a.item() == b.item() == pytest.approx(0.85)


def test_ctc_of_a_sequence_too_long_for_its_input() -> None:
    log_probs = rl.randn(2, 1, 3).log_softmax(2).requires_grad_()
    target = rl.tensor([[1, 1]])
    assert F.ctc_loss(log_probs, target, (2,), (2,), reduction="sum").item() == inf
    loss = F.ctc_loss(log_probs, target, (2,), (2,), zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert not log_probs.grad.any()


def test_ctc_has_no_second_derivative_and_says_so() -> None:
    log_probs = rl.randn(4, 1, 3).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(log_probs, rl.tensor([[1]]), (4,), (1,))
    (g,) = rl.autograd.grad(loss, log_probs, create_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        g.sum().backward()


def test_layers_show_and_keep_what_they_were_made_with() -> None:
    layer = nn.CrossEntropyLoss(rl.ones(3), ignore_index=1, label_smoothing=0.1)
    assert repr(layer) == "CrossEntropyLoss()"
    assert list(layer.state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=rl.ones(2)).state_dict()) == ["pos_weight"]
    assert not nn.MSELoss().state_dict()
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)
    distance = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(1))
    assert "PairwiseDistance()" in repr(distance)


def test_weights_of_classes_want_no_gradient() -> None:
    weight = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        F.cross_entropy(rl.zeros(1, 2), rl.tensor([0]), weight)


def test_logits_that_are_infinite() -> None:
    x = rl.tensor([inf, -inf])
    for options in ({}, {"weight": rl.ones(2)}, {"pos_weight": rl.ones(2)}):
        loss = F.binary_cross_entropy_with_logits(
            x, rl.tensor([0.0, 1.0]), reduction="none", **options
        )
        assert loss[0] == inf
        assert loss[1].isnan()
    assert F.soft_margin_loss(x, rl.ones(2), reduction="none").tolist() == [0, inf]
    classes = F.multilabel_soft_margin_loss(x[:, None], rl.tensor([[0.0], [1.0]]))
    assert classes == inf


def test_the_target_of_a_soft_margin_gets_no_gradient() -> None:
    x, target = rl.ones(3), rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'target'"):
        F.soft_margin_loss(x, target)
    with rl.no_grad():
        assert F.soft_margin_loss(x, target).shape == ()


@pytest.mark.parametrize("shape", [(0, 0), (0, 0, 3), (2, 3, 0), (0, 3)])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_losses_of_no_labels_or_of_no_classes(loss: Any, shape: tuple[int, ...]) -> None:
    target = rl.zeros((shape[0], *shape[2:]), dtype=rl.int64)
    for run in (loss, rl.compile(loss, fullgraph=True)):
        x = rl.zeros(shape, requires_grad=True)
        y = run(x, target)
        assert math.isnan(y.item())
        y.backward()
        assert x.grad.shape == shape
