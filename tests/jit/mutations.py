"""Damaged program files: bytes of the archive, or parts of it with all checksums repaired."""

from __future__ import annotations

import io
import random
import re
import sys
import zipfile

import rushlight as rl
from rushlight.io import CheckpointError

WORDS = re.compile(rb"\d+|[A-Za-z_]\w*|[^\w\s]")
FRESH = [
    b"0", b"1", b"-1", b"2", b"3", b"7", b"65", b"4096", b"99999999999", b"None", b"True", b"%0",
    b"%1", b"exp", b"sum", b"f64", b"i64", b"b1", b"slice", b"", b"{", b"[", b"]", b"mm", b"add",
    b"tensor", b"number", b"gather", b"transpose", b"1e400", b"null", b"2.5",
]  # fmt: skip


class Net(rl.nn.Module):
    """Products, windows, a branch, and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = rl.nn.Conv2d(2, 4, 3, padding=1)
        self.norm = rl.nn.BatchNorm2d(4)
        self.linear = rl.nn.Linear(16, 3)

    def forward(self, x, scale: float = 1.0):
        y = rl.nn.functional.max_pool2d(self.norm(self.convolution(x)).relu(), 2)
        y = rl.nn.functional.dropout(y.flatten(1), 0.5, self.training)
        y = self.linear(y[:, :16].roll(1, 1))
        y = y.softmax(1) if y.sum() > 0 else y.sort(1).values
        return {"y": y * scale, "best": y.argmax(1), "part": rl.cat([y, y[:, 1:2]], 1)}


def samples() -> list[bytes]:
    """Files of a network, of a training step and of a loop."""
    rl.manual_seed(0)
    net, x = Net(), rl.rand(2, 2, 4, 4)
    labels = rl.tensor([1, 2])
    optimizer = rl.optim.AdamW(net.parameters(), lr=0.01)

    def step(x, labels):
        optimizer.zero_grad()
        loss = rl.nn.functional.cross_entropy(net(x)["y"], labels)
        loss.backward()
        optimizer.step()
        return loss

    def loop(x, table, rows):
        _, steps = rl.scan(lambda c, row: (c + row, c * row), rl.zeros(3), table[rows])
        while x.sum() < 20.0:
            x = x * 2
        return x, steps.cumsum(0), x.reshape(-1)[1:].flip(0)

    made = [
        rl.jit.trace(net, (x,)),
        rl.export(step, x, labels),
        rl.export(loop, rl.ones(2, 3), rl.rand(5, 3), rl.tensor([0, 4, 2])),
    ]
    return [without_comments(each.save_to_buffer()) for each in made]


def without_comments(data: bytes) -> bytes:
    """The file without the places that graphs come from, where damage would do nothing."""
    members = members_of(data)
    return archive_of({name: re.sub(rb"  # .*", b"", members[name]) for name in members})


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


ARGUMENTS = [
    lambda: (rl.ones(2, 2, 4, 4),),
    lambda: (rl.ones(2, 2, 4, 4), rl.tensor([0, 1])),
    lambda: (rl.ones(2, 3), rl.ones(5, 3), rl.tensor([0, 4, 2])),
]


def mutated(data: bytes, source: random.Random) -> bytes:
    """The file with something wrong in it."""
    way = source.randrange(6)
    if way == 0:
        return data[: source.randrange(len(data))]
    if way == 1:
        place = source.randrange(len(data))
        return data[:place] + bytes([data[place] ^ 1 << source.randrange(8)]) + data[place + 1 :]
    members = members_of(data)
    texts = [name for name in members if name.endswith((".txt", ".json"))]
    graphs = [name for name in texts if name.endswith(".txt")]
    name = source.choice(texts if way < 5 else graphs)
    members[name] = (with_lines if way == 5 else with_words)(members[name], source)
    return archive_of(members)


def with_words(text: bytes, source: random.Random) -> bytes:
    """The text with a few words replaced by others of it, or by new ones."""
    words = list(WORDS.finditer(text))
    for match in sorted(source.sample(words, source.choice([1, 1, 1, 2, 3])),
                        key=lambda m: -m.start()):  # fmt: skip
        other = source.choice(words)[0] if source.random() < 0.6 else source.choice(FRESH)
        text = text[: match.start()] + other + text[match.end() :]
    return text


def with_lines(text: bytes, source: random.Random) -> bytes:
    """The text with lines dropped, doubled or exchanged, or operands renamed."""
    lines = text.split(b"\n")
    i, j = source.randrange(len(lines)), source.randrange(len(lines))
    way = source.randrange(4)
    if way == 0:
        del lines[i]
    elif way == 1:
        lines.insert(i, lines[j])
    elif way == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        values = re.findall(rb"%\d+", lines[i])
        if values:
            lines[i] = lines[i].replace(source.choice(values), b"%%%d" % source.randrange(40))
    return b"\n".join(lines)


def run(begin: int, end: int) -> dict[str, int]:
    """Loads mutated files; those that load are called. Anything but an exception is a crash."""
    files = samples()
    seen: dict[str, int] = {}
    for seed in range(begin, end):
        source = random.Random(seed)
        which = source.randrange(len(files))
        data = mutated(files[which], source)
        print(seed, end=" ", file=sys.stderr, flush=True)
        try:
            loaded = rl.jit.load(io.BytesIO(data))
        except CheckpointError:
            outcome = "refused"
        else:
            try:
                loaded(*ARGUMENTS[which]())
                outcome = "ran"
            except Exception as error:
                outcome = f"failed: {type(error).__name__}: {error}"[:150]
        seen[outcome] = seen.get(outcome, 0) + 1
    return seen


if __name__ == "__main__":
    for outcome, count in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(count, outcome)
