"""Groups, state, hooks, errors: what all optimizers have in common."""

from __future__ import annotations

import copy
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)

OPTIMIZERS = [
    *("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon"),
    *("NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"),
]
SIMPLE = [name for name in OPTIMIZERS if name != "LBFGS"]  # which need no closure


def leaf(*shape: int) -> rl.Tensor:
    rl.manual_seed(0)
    return rl.randn(*(shape or (2, 3)), requires_grad=True)


def made(name: str, params: Any, **kwargs: Any) -> Any:
    return getattr(rl.optim, name)(params, **kwargs)


def closure_of(optimizer: Any, w: rl.Tensor) -> Any:
    def closure() -> rl.Tensor:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_descends(name: str) -> None:
    w = leaf()
    optimizer = made(name, [w], **{"Adadelta": {"lr": 10.0}}.get(name, {"lr": 0.05}))
    losses = [float(optimizer.step(closure_of(optimizer, w))) for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("lr", ["0.1", None, [0.1]], ids=["text", "none", "list"])
def test_a_rate_that_is_no_number_is_refused(name: str, lr: Any) -> None:
    said = rf"lr must be a number, got {re.escape(repr(lr))} \({type(lr).__name__}\)"
    with pytest.raises(TypeError, match=said):
        made(name, [leaf()], lr=lr)
    with pytest.raises(TypeError, match=said):
        made(name, [{"params": [leaf()], "lr": lr}], lr=0.1)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("lr", [1, np.float32(0.5)], ids=["int", "numpy"])
def test_numbers_of_any_kind_are_rates(name: str, lr: Any) -> None:
    w = leaf()
    optimizer = made(name, [w], lr=lr)
    optimizer.step(closure_of(optimizer, w))
    assert w.isfinite().all()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("lr", [-1.0, math.nan])
def test_a_rate_below_zero_or_nan_is_refused(name: str, lr: float) -> None:
    with pytest.raises(ValueError, match=r"[Ll]earning rate.*(-1.0|nan)"):
        made(name, [leaf()], lr=lr)


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("SGD", {"momentum": -0.1}, "Invalid momentum value: -0.1"),
        ("SGD", {"weight_decay": math.nan}, "Invalid weight_decay value: nan"),
        ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        ("Adam", {"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        ("Adam", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ("AdamW", {"betas": (math.nan, 0.9)}, "Invalid beta parameter at index 0: nan"),
        ("AdamW", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value"),
        ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
        ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
        ("Adam", {"lr": rl.tensor([0.1, 0.2])}, "Tensor lr must be 1-element"),
        ("LBFGS", {"lr": -1}, "Invalid learning rate: -1"),
    ],
)
def test_hyper_parameters_out_of_range(name: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name, [leaf()], **kwargs)


def test_wrong_parameters() -> None:
    w = leaf()
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts, but got"):
        rl.optim.SGD(w)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"empty parameter list$"):
        rl.optim.SGD([])
    used_up = iter([w])
    list(used_up)
    with pytest.raises(ValueError, match=r"empty parameter list \(a generator serves only once\)"):
        rl.optim.SGD(used_up)
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        rl.optim.SGD([w * 2])
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is int"):
        rl.optim.SGD([w, 3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="ordered collections"):
        rl.optim.SGD([{"params": {w}}])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        rl.optim.SGD([{"params": [w]}, {"params": w}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        rl.optim.SGD([w, w])
    with pytest.raises(TypeError, match="param_group must be a dict"):
        rl.optim.SGD([w]).add_param_group([leaf()])  # type: ignore[arg-type]


def test_names_of_parameters() -> None:
    w, b = leaf(), leaf(3)
    optimizer = rl.optim.SGD([("weight", w), ("bias", b)])
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"] == [w, b]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="Some param names are missing"):
        rl.optim.SGD([("weight", w), b])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [leaf()]})


def test_a_required_hyper_parameter() -> None:
    class Demanding(rl.optim.Optimizer):
        pass

    with pytest.raises(ValueError, match=r"didn't specify a value of required .* rate"):
        Demanding([leaf()], {"rate": required})
    optimizer = Demanding([{"params": leaf(), "rate": 1.0}], {"rate": required})
    optimizer.param_groups[0]["params"][0].grad = rl.ones(2, 3)
    with pytest.raises(NotImplementedError):
        optimizer.step()


@pytest.mark.parametrize("name", SIMPLE)
def test_a_step_writes_in_place(name: str) -> None:
    w = leaf()
    array, alias, before = w._array, w.detach(), w._version
    optimizer = made(name, [w])
    w.grad = rl.ones(2, 3)
    optimizer.step()
    assert w._array is array
    assert alias._version == w._version > before
    assert rl.equal(alias, w)
    assert w.is_leaf
    assert w.requires_grad
    assert rl.equal(w.grad, rl.ones(2, 3))


@pytest.mark.parametrize("name", ["SGD", "Rprop"])
def test_backward_after_a_step_reports_the_write(name: str) -> None:
    w = leaf()
    loss = (w * w).sum()
    w.grad = rl.ones(2, 3)
    made(name, [w]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_that_cannot_be_written() -> None:
    w = rl.ones(1).expand(3).requires_grad_()
    w.grad = rl.ones(3)
    with pytest.raises(RuntimeError, match="more than one element"):
        rl.optim.SGD([w]).step()


@pytest.mark.parametrize("name", SIMPLE)
def test_only_parameters_with_gradients_move(name: str) -> None:
    w, b = leaf(), leaf(2, 2)
    optimizer = made(name, [w, b])
    optimizer.step()
    w.grad = rl.ones(2, 3)
    before = b.detach().clone()
    optimizer.step()
    assert rl.equal(b, before)
    assert name == "Adagrad" or b not in optimizer.state


def test_state_is_in_tensors() -> None:
    w = leaf()
    w.grad = rl.ones(2, 3)
    optimizer = rl.optim.Adam([w], amsgrad=True)
    optimizer.step()
    optimizer.step()
    state = optimizer.state[w]
    assert list(state) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert repr(state["step"]) == "tensor(2.)"
    assert state["exp_avg"].shape == (2, 3)


def test_plain_descent_keeps_no_state() -> None:
    w = leaf()
    w.grad = rl.ones(2, 3)
    optimizer = rl.optim.SGD([w])
    optimizer.step()
    assert optimizer.state_dict()["state"] == {}
    optimizer.param_groups[0]["momentum"] = 0.9  # from now on with momentum
    optimizer.step()
    assert rl.equal(optimizer.state[w]["momentum_buffer"], w.grad)


@pytest.mark.parametrize("name", SIMPLE)
def test_copies_go_on_alike(name: str) -> None:
    w = leaf()
    optimizer = made(name, [w])
    w.grad = rl.ones(2, 3)
    optimizer.step()
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (other,) = twin.param_groups[0]["params"]
        assert other is not w
        assert rl.equal(other, w)
        other.grad = rl.ones(2, 3)
        twin.step()
    w.grad = rl.ones(2, 3)
    optimizer.step()
    assert rl.equal(other, w)


def test_loading_copies_and_checks() -> None:
    w = leaf()
    w.grad = rl.ones(2, 3)
    optimizer = rl.optim.Adam([w])
    optimizer.step()
    saved = optimizer.state_dict()
    twin = rl.optim.Adam([leaf().double().detach().requires_grad_()])
    twin.load_state_dict(saved)
    state = twin.state[twin.param_groups[0]["params"][0]]
    assert (state["exp_avg"].dtype, state["step"].dtype) == (rl.float64, rl.float32)
    optimizer.step()
    assert state["step"] == 1
    with pytest.raises(ValueError, match="different number of parameter groups"):
        twin.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        rl.optim.Adam([leaf(), leaf()]).load_state_dict(saved)


def test_old_states_have_numbers_for_steps() -> None:
    optimizer = rl.optim.Adam([leaf()], lr=0.5)
    optimizer.load_state_dict(
        {
            "state": {0: {"step": 3, "exp_avg": rl.zeros(2, 3), "exp_avg_sq": rl.zeros(2, 3)}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        }
    )
    group = optimizer.param_groups[0]
    assert (group["lr"], group["amsgrad"]) == (0.1, False)
    assert repr(optimizer.state[group["params"][0]]["step"]) == "tensor(3.)"


def test_hooks_run_in_order() -> None:
    w = leaf()
    w.grad = rl.ones(2, 3)
    optimizer = rl.optim.SGD([w])
    seen: list[str] = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after")),
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("before all")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("after all")),
    ]
    optimizer.step(lambda: seen.append("loss"))
    assert seen == ["before all", "before", "loss", "after", "after all"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 5


def test_a_hook_may_change_the_arguments() -> None:
    optimizer = rl.optim.SGD([leaf()])
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), {})):
        assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="None or a tuple of"):
        optimizer.step()


def test_hooks_run_once_for_a_step_that_calls_another() -> None:
    class Counting(rl.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    seen: list[Any] = []
    optimizer = Counting([leaf()])
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(o))
    optimizer.step()
    assert seen == [optimizer]


def test_hooks_of_the_state() -> None:
    optimizer = rl.optim.SGD([leaf()], lr=0.1)
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "extra": 1})
    saved = optimizer.state_dict()
    assert (seen, saved["extra"]) == (["first", "second"], 1)

    def faster(o: Any, loaded: dict[str, Any]) -> dict[str, Any]:
        return {**loaded, "param_groups": [{**loaded["param_groups"][0], "lr": 0.5}]}

    optimizer.register_load_state_dict_pre_hook(faster)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(saved)
    assert (optimizer.param_groups[0]["lr"], seen[-1]) == (0.5, "loaded")


def test_zero_grad() -> None:
    w = leaf()
    optimizer = rl.optim.SGD([w])
    (w * w).sum().backward()
    gradient = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is gradient
    assert not w.grad.any()
    optimizer.zero_grad()
    assert w.grad is None


def test_closures_are_differentiated_and_steps_are_not() -> None:
    w = leaf()
    optimizer = rl.optim.Adam([w])
    with rl.no_grad():
        loss = optimizer.step(closure_of(optimizer, w))
    assert loss.requires_grad
    assert w.is_leaf


def test_a_user_s_own_optimizer() -> None:
    class Sign(rl.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        @rl.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    w = rl.tensor([1.0, -1.0], requires_grad=True)
    optimizer = Sign([w], lr=0.25)
    w.grad = rl.tensor([3.0, -2.0])
    optimizer.step()
    assert w.tolist() == [0.75, -0.75]
    assert repr(optimizer) == "Sign (\nParameter Group 0\n    lr: 0.25\n)"


def test_a_parameter_of_many_pieces() -> None:
    rng = np.random.default_rng(0)
    values, gradients = rng.standard_normal((2, 200_001))
    whole, parts = rl.tensor(values), [rl.tensor(v) for v in np.array_split(values, 9)]
    whole.grad = rl.tensor(gradients)
    for part, g in zip(parts, np.array_split(gradients, 9), strict=True):
        part.grad = rl.tensor(g)
    for params in ([whole], parts):
        optimizer = rl.optim.Adam(params, weight_decay=0.1)
        optimizer.step()
        optimizer.step()
    assert rl.equal(whole, rl.cat(parts))


def test_swapping_refuses_what_does_not_fit() -> None:
    w = leaf()
    optimizer = rl.optim.Adam([w])
    swap = rl.optim.swap_in_optimizer_params_and_state
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
        swap(optimizer, {"w": w}, optimizer.state_dict()).__enter__()
    w.grad = rl.ones(2, 3)
    optimizer.step()
    state = optimizer.state_dict()
    for wrong in (
        3,
        {"state": {}, "param_groups": []},
        {"state": {5: {}}, "param_groups": state["param_groups"]},
        {"state": {}, "param_groups": [{"params": [0]}]},
    ):
        with pytest.raises(RuntimeError):
            swap(optimizer, {"w": w}, wrong).__enter__()  # type: ignore[arg-type]
    twin = leaf()
    with swap(optimizer, {"w": twin}, state):
        assert optimizer.param_groups[0]["params"] == [twin]
        assert optimizer.state[twin]["step"] == 1
    assert optimizer.param_groups[0]["params"] == [w]


def test_state_of_other_shapes_is_refused_with_all_differences() -> None:
    def trained(*shapes: tuple[int, ...]) -> rl.optim.Optimizer:
        params = [rl.ones(shape, requires_grad=True) for shape in shapes]
        optimizer = rl.optim.Adam(params)
        sum(p.sum() for p in params).backward()
        optimizer.step()
        return optimizer

    saved = trained((2,), (3,)).state_dict()
    with pytest.raises(RuntimeError, match=r"exp_avg of parameter 0: \[2\] for \[5\]") as caught:
        trained((5,), (4,)).load_state_dict(saved)
    assert "exp_avg_sq of parameter 1: [3] for [4]" in str(caught.value)


def test_two_decay_rates_are_needed() -> None:
    with pytest.raises(ValueError, match="expected two numbers"):
        rl.optim.Adamax([rl.ones(1, requires_grad=True)], betas=(0.9,))


def test_a_module_is_no_list_of_parameters() -> None:
    with pytest.raises(TypeError, match=r"got the method .* call it: model\.parameters\(\)"):
        rl.optim.SGD(rl.nn.Linear(2, 2).parameters)
    with pytest.raises(TypeError, match=r"pass its parameters: model\.parameters\(\)"):
        rl.optim.SGD(rl.nn.Linear(2, 2), lr=0.1)
