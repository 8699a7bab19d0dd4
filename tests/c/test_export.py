"""Exported programs, built by gcc with sanitizers: they compute what the functions do."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor, nn
from rushlight.c.file import Unsupported
from rushlight.symbol import TraceError
from tests.c.building import FAST, SANITIZED, STRICT, Failure, assert_close, build, check

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


class Last(nn.Module):
    """A classifier of sequences."""

    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.layer = layer(4, 6, batch_first=True, bidirectional=True)  # type: ignore[call-arg]
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class Language(nn.Module):
    """One block of a language model."""

    def __init__(self, words: int = 20, size: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(words, size), nn.Embedding(8, size)
        self.queries, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.wide, self.narrow = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.head = nn.Linear(size, words)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape
        y = self.words(x) + self.places(rl.arange(length))
        parts = self.queries(self.norms[0](y)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + self.out(seen.transpose(1, 2).reshape(batch, length, -1))
        y = y + self.narrow(F.gelu(self.wide(self.norms[1](y))))
        return self.head(y)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 40), nn.ReLU(), nn.Linear(40, 10),
    )  # fmt: skip


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), Residual(8), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Sequence[int]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(40, 33), nn.GELU(), nn.Linear(33, 2), nn.Softmax(-1)),
        (5, 40),
    ),
    "lenet": (lenet, (2, 1, 28, 28)),
    "resnet": (lambda: resnet().eval(), (2, 3, 11, 11)),
    "resnet_in_training": (resnet, (4, 3, 11, 11)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 4, 5)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16).eval(), (5, 2, 8)),
    "lstm": (lambda: nn.LSTM(4, 6, 2, bidirectional=True), (7, 2, 4)),
    "gru": (lambda: nn.GRU(4, 6, batch_first=True), (2, 7, 4)),
}  # fmt: skip


QUICK = ("mlp", "resnet_in_training", "adam")


def some(names: Iterable[str]) -> list[Any]:
    """Names as parameters, of which a few are tested each time."""
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", some(NETWORKS))
def test_networks(name: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    rl.manual_seed(0)
    weights = "array" if name in ("mlp", "gru") else "binary"
    check(make(), rl.randn(*shape), folder=tmp_path, name=name, weights=weights)


@pytest.mark.slow
def test_a_language_model_checks_its_words(tmp_path: Path) -> None:
    rl.manual_seed(0)
    built = check(Language(), rl.randint(0, 20, (2, 8)), folder=tmp_path, name="language")
    with pytest.raises(Failure) as caught:
        built.run([np.full((2, 8), 20)])
    code, position, message = caught.value.args
    assert code >= 16
    assert position == 20
    assert "index" in message
    assert "test_export.py" in message


def steps(
    network: nn.Module, optimizer: Any, loss: Callable[..., Tensor], *batch: Tensor
) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    def step(*batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        value = loss(network(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return value

    return step, batch


def trainings() -> dict[str, Callable[[], Any]]:
    """Training steps, and their first batch."""
    x, y = rl.randn(8, 4), rl.randint(0, 3, (8,))

    def dense(optimizer: Callable[..., Any]) -> Any:
        network = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Dropout(0.3), nn.Linear(30, 3))
        return steps(network, optimizer(network.parameters()), F.cross_entropy, x, y)

    def convolutional() -> Any:
        network = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(16, 3),
        )  # fmt: skip
        images = rl.randn(8, 1, 10, 10)
        optimizer = rl.optim.Adam(network.parameters(), lr=0.01)
        return steps(network, optimizer, F.cross_entropy, images, y)

    def recurrent() -> Any:
        network = Last(nn.LSTM)
        optimizer = rl.optim.RMSprop(network.parameters(), lr=0.01)
        return steps(network, optimizer, F.cross_entropy, rl.randn(8, 5, 4), y)

    def language() -> Any:
        network = Language()
        words = rl.randint(0, 20, (2, 9))
        optimizer = rl.optim.AdamW(network.parameters(), lr=0.01)
        loss = lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten())  # noqa: E731
        return steps(network, optimizer, loss, words[:, :-1].clone(), words[:, 1:].clone())

    return {
        "sgd": lambda: dense(lambda p: rl.optim.SGD(p, lr=0.1)),
        "momentum": lambda: dense(lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9)),
        "adam": lambda: dense(lambda p: rl.optim.Adam(p, lr=0.01)),
        "convolutional": convolutional,
        "recurrent": recurrent,
        "language": language,
    }


@pytest.mark.parametrize("name", some(trainings()))
def test_twenty_steps_of_training(name: str, tmp_path: Path) -> None:
    rl.manual_seed(1)
    step, batch = trainings()[name]()
    if name == "momentum":
        with pytest.raises(TraceError, match="call it once before"):
            rl.export_c(step, *batch, dir=tmp_path)
        step(*batch)
    state = rl.get_rng_state()
    weights = "array" if name == "sgd" else "binary"
    built = build(step, *batch, folder=tmp_path, name=name, weights=weights)
    found = [float(outputs[0]) for outputs in built.run(*[batch] * 20)]
    rl.set_rng_state(state)
    expected = [float(step(*batch)) for _ in range(20)]
    assert expected[-1] < expected[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_training_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    rl.manual_seed(2)
    step, batch = trainings()["adam"]()
    built = build(step, *batch, folder=tmp_path, name="adam", flags=STRICT)
    whole = built.run(*[batch] * 6)
    saved = tmp_path / "half"
    built.run(*[batch] * 3, save=saved)
    rest = built.run(*[batch] * 3, weights=saved)
    assert [float(y[0]) for y in rest] == [float(y[0]) for y in whole[3:]]


def test_a_bad_file_of_weights_is_refused(tmp_path: Path) -> None:
    rl.manual_seed(0)
    built = build(nn.Linear(3, 2), rl.ones(1, 3), folder=tmp_path, name="line", flags=STRICT)
    good = built.weights.read_bytes()
    x = [rl.ones(1, 3)]
    bad = tmp_path / "bad"
    contents = [b"", good[:-1], good + b"x", *[flipped(good, i) for i in range(0, len(good), 17)]]
    for content in contents:
        bad.write_bytes(content)
        if content[4:8] != good[4:8]:
            continue  # bytes that mean nothing
        with pytest.raises(Failure) as caught:
            built.run(x, weights=bad)
        assert caught.value.args[0] == 2
    with pytest.raises(Failure) as caught:
        built.run(x, weights=tmp_path / "missing")
    assert caught.value.args[0] == 1


def test_a_state_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    rl.manual_seed(0)
    built = build(nn.Linear(30, 20), rl.ones(1, 30), folder=tmp_path, name="line", flags=STRICT)
    saved, good = tmp_path / "saved", built.weights.read_bytes()
    for _ in range(2):  # a new file, then one that is there
        built.run(save=saved)
        assert saved.read_bytes() == good
    files = sorted(tmp_path.iterdir())
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(Failure) as caught:
        built.run(save=folder)
    assert caught.value.args[0] == 3
    folder.rmdir()

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = [str(built.program), "0", str(built.weights), str(saved)]
    ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=small_disk)
    assert ran.stderr.startswith("3 0 the file could not be written")
    assert saved.read_bytes() == good
    assert sorted(tmp_path.iterdir()) == files


def test_numbers_are_called_by_what_they_are(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    groups = [{"params": [net.weight]}, {"params": [net.bias], "lr": 0.5}]
    optimizer = rl.optim.AdamW(groups, lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(rl.ones(3, 2))
    rl.export_c(step, rl.ones(3, 2), dir=tmp_path, name="step")
    header = (tmp_path / "step.h").read_text()
    for name in ("LR", "LR_1", "BETAS_0", "EPS", "X1_MINUS_LR_TIMES_WEIGHT_DECAY"):
        assert f"#define STEP_{name}(state)" in header
    assert "/* 1 minus (lr times weight_decay): float64 of shape () */" in header
    assert "NUMBER" not in header


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]


def test_state_can_be_reached_by_name(tmp_path: Path) -> None:
    """A learning rate is a number of the state, which the caller may change."""
    w = rl.ones(2)
    step, batch = steps_of_rate(w)
    path = rl.export_c(step, *batch, dir=tmp_path, name="rate")
    header = path.with_suffix(".h").read_text()
    assert "RATE_TENSOR" in header
    (tmp_path / "main.c").write_text(RATE)
    program = tmp_path / "main"
    files = [str(path), str(tmp_path / "main.c")]
    subprocess.run(["gcc", *STRICT, *files, "-o", str(program), "-lm"], check=True)
    found = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True, check=True)
    step(*batch)
    assert [float(x) for x in found.stdout.split()] == w.tolist()


def steps_of_rate(w: Tensor) -> tuple[Callable[..., None], tuple[Tensor, ...]]:
    def step(g: Tensor) -> None:
        w.sub_(0.5 * g)

    return step, (rl.tensor([1.0, 4.0]),)


RATE = """
#include "rate.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    rate_state state;
    const float g[] = {1, 4};
    void *memory = malloc(RATE_MEMORY);
    if (rate_init(&state, memory, "rate.weights") || rate_run(&state, g)) return 1;
    printf("%g %g", RATE_TENSOR0(&state)[0], RATE_TENSOR0(&state)[1]);
    free(memory);
    return 0;
}
"""


def test_the_example_runs(tmp_path: Path) -> None:
    path = rl.export_c(nn.Linear(3, 2), rl.ones(1, 3), dir=tmp_path)
    files = [str(path), str(tmp_path / "linear_main.c")]
    program = str(tmp_path / "linear")
    subprocess.run(["gcc", *FAST, *files, "-o", program, "-lm"], check=True, cwd=tmp_path)
    ran = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("y[0] = ")


def test_the_example_leaves_no_memory_behind_after_an_error(tmp_path: Path) -> None:
    path = rl.export_c(nn.Linear(3, 2), rl.ones(1, 3), dir=tmp_path)
    program, main = str(tmp_path / "linear"), str(tmp_path / "linear_main.c")
    subprocess.run(["gcc", *SANITIZED, str(path), main, "-o", program, "-lm"], check=True)
    (tmp_path / "linear.weights").unlink()
    ran = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "the file could not be opened\n")


def test_the_example_has_names_of_its_own(tmp_path: Path) -> None:
    def function(state: Tensor, code: Tensor, main: Tensor, printf: Tensor, FILE: Tensor) -> Tensor:
        return state * 2 + code + main + printf + FILE

    path = rl.export_c(function, *[rl.ones(3)] * 5, dir=tmp_path)
    files = [str(path), str(tmp_path / "function_main.c")]
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", *files, "-o", str(tmp_path / "f")]
    subprocess.run([*command, "-lm"], check=True)


def test_dtypes_and_numbers_that_are_none(tmp_path: Path) -> None:
    def function(a: Tensor, c: Tensor, x: Tensor) -> Any:
        return (
            a + 1, a // 3, a % 3, a.short() * 9999, a.to(rl.uint8) - 3, x.double() * 2, c & ~c,
            x.half() * 3.3, x.bfloat16().exp(), (x * 1e10).int(), x.long(), x > 0, x.abs().sqrt(),
            x.amax(), x.argmax(), x.clamp(-1, 1), x.sum(), x.sigmoid(), x.nan_to_num(),
        )  # fmt: skip

    x = rl.tensor([np.nan, np.inf, -np.inf, 1.7, -0.0])
    check(function, rl.tensor([-7, 2, 9]), rl.tensor([True, False]), x, folder=tmp_path, name="f")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_products_of_halves_have_sums_of_floats(kind: str, tmp_path: Path) -> None:
    rl.manual_seed(0)
    dtype = getattr(rl, kind)
    a, b = rl.rand(6, 3000).to(dtype), rl.rand(3000, 20).to(dtype)
    (row,) = build(lambda a, b: (a @ b, a @ b[:, 0]), a, b, folder=tmp_path, name="half").run(
        [a, b]
    )
    exact = a.double() @ b.double()
    for found, expected in zip(row, (exact, exact[:, 0]), strict=True):
        step = 2.0 ** (-11 if kind == "float16" else -8)  # half a unit in the last place
        np.testing.assert_allclose(found.astype(float), expected.numpy(), rtol=1.01 * step)


def test_empty_tensors(tmp_path: Path) -> None:
    def function(x: Tensor) -> Any:
        return x * 2, x.sum(), x.sum(0), x.t() @ x, rl.cat([x, x + 1])

    check(function, rl.zeros(0, 3), folder=tmp_path, name="f")


def test_an_argument_may_be_changed(tmp_path: Path) -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sum()
        x.mul_(2)
        return y

    built = build(function, rl.arange(3.0), folder=tmp_path, name="f")
    (outputs,) = built.run([rl.arange(3.0)])
    assert [x.tolist() for x in outputs] == [[0.0, 2.0, 4.0], 3.0]


def test_results_that_are_views_of_each_other(tmp_path: Path) -> None:
    w = rl.arange(6.0).view(2, 3)

    def function(x: Tensor) -> Any:
        y = x + 1
        return y, y[0], x, w, y.t(), y

    check(function, rl.ones(2, 3), folder=tmp_path, name="f")


def test_only_its_own_files_are_written(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    rl.export_c(lambda x: x + 1, rl.ones(2), dir=tmp_path, name="one")
    assert other.read_text() == "mine"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"notes.txt", "one.c", "one.h", "one_main.c", "one.weights"}


def test_comments_cannot_be_left(tmp_path: Path) -> None:
    source = "def f(x):\n    return x + 1\n"
    names: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "evil*/ int x; /* \\.py"), "exec"), names)
    built = build(names["f"], rl.ones(2), folder=tmp_path, name="f")
    assert "*/ int x" not in built.path.read_text()


@pytest.mark.parametrize("name", ["", "2x", "a-b", "int", "../x", "x" * 49, "a b"])
def test_bad_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a name of C"):
        rl.export_c(lambda x: x, rl.ones(1), dir=tmp_path, name=name)


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='"binary" or "array"'):
        rl.export_c(lambda x: x, rl.ones(1), dir=tmp_path, weights="text")
    with pytest.raises(TypeError, match="takes a function or a module"):
        rl.export_c(nn.Linear, rl.ones(1), dir=tmp_path)
    with pytest.raises(Unsupported, match=r"linalg.svdvals at .*test_export.py:\d+ cannot be"):
        rl.export_c(lambda x: rl.linalg.svdvals(x), rl.ones(2, 2), dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_gradients_that_are_added_to(tmp_path: Path) -> None:
    w = rl.ones(3, requires_grad=True)

    def function(x: Tensor) -> Any:
        (w * x).sum().backward()
        return w.grad

    x = rl.arange(3.0)
    with pytest.raises(TraceError, match="zero_grad"):
        rl.export_c(function, x, dir=tmp_path)
    function(x)
    built = build(function, x, folder=tmp_path, name="f")
    for (found,), factor in zip(built.run([x], [x]), (2, 3), strict=True):
        assert_close(found, x.numpy() * factor)
