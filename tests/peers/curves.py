"""Whole training programs, written once over a framework's namespace (``rushlight`` or ``torch``).

Each takes the framework and a number of steps, seeds it once, builds its data, model and optimizer,
and yields first the model and then a loss after each step. Initialisation, shuffling, dropout and
noise all come from the one seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

Program = Callable[[Any, int], Iterator[Any]]


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def fit(lib: Any, model: Any, optimizer: Any, losses: Iterator[Any], steps: int) -> Iterator[Any]:
    """Yields the model, then the loss of each step."""
    yield model
    for _ in range(steps):
        loss = next(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def mlp(lib: Any, steps: int) -> Iterator[Any]:
    nn, data = lib.nn, lib.utils.data
    lib.manual_seed(0)
    x = lib.randn(200, 20)
    y = (x[:, 0] * x[:, 1] > 0).long()
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 2)
    )
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loss = nn.CrossEntropyLoss()
    yield from fit(lib, model, optimizer, (loss(model(a), b) for a, b in endless(loader)), steps)


def lenet(lib: Any, steps: int) -> Iterator[Any]:
    nn, data = lib.nn, lib.utils.data
    lib.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 25, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    x, y = lib.randn(64, 1, 28, 28), lib.randint(0, 10, (64,))
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy
    yield from fit(lib, model, optimizer, (loss(model(a), b) for a, b in endless(loader)), steps)


def char_rnn(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(2)
    text = (
        "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. " * 3
    )
    letters = sorted(set(text))
    codes = lib.tensor([letters.index(c) for c in text])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(letters), 16)
            self.rnn = nn.RNN(16, 32, num_layers=2, batch_first=True)
            self.head = nn.Linear(32, len(letters))

        def forward(self, x: Any, state: Any = None) -> Any:
            y, state = self.rnn(self.embedding(x), state)
            return self.head(y), state

    model = Net()
    optimizer = lib.optim.RMSprop(model.parameters(), lr=2e-3)

    def losses() -> Iterator[Any]:
        while True:
            start = lib.randint(0, len(text) - 33, (8,)).tolist()
            x = lib.stack([codes[i : i + 32] for i in start])
            y = lib.stack([codes[i + 1 : i + 33] for i in start])
            scores, _ = model(x)
            yield nn.functional.cross_entropy(scores.reshape(-1, len(letters)), y.reshape(-1))

    yield from fit(lib, model, optimizer, losses(), steps)


def packed_lstm(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    rnn = nn.utils.rnn
    lib.manual_seed(3)
    lengths = lib.randint(3, 12, (24,)).tolist()
    sequences = [lib.randn(n, 5) for n in lengths]
    labels = lib.tensor([float(s.sum() > 0) for s in sequences])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(5, 16, 2, batch_first=True, bidirectional=True, dropout=0.2)
            self.head = nn.Linear(32, 1)

        def forward(self, padded: Any, lengths: list[int]) -> Any:
            packed = rnn.pack_padded_sequence(
                padded, lib.tensor(lengths), batch_first=True, enforce_sorted=False
            )
            y, (h, _) = self.lstm(packed)
            unpacked, _ = rnn.pad_packed_sequence(y, batch_first=True)
            last = lib.cat([h[-2], h[-1]], dim=1)
            return self.head(last + 0.1 * unpacked.mean(1)).squeeze(1)

    model = Net()
    optimizer = lib.optim.Adam(model.parameters(), lr=5e-3)
    padded = rnn.pad_sequence(sequences, batch_first=True)
    loss = nn.BCEWithLogitsLoss()

    def losses() -> Iterator[Any]:
        while True:
            order = lib.randperm(24)[:12].tolist()
            yield loss(model(padded[order], [lengths[i] for i in order]), labels[order])

    yield from fit(lib, model, optimizer, losses(), steps)


def gru(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(4)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(1, 24, num_layers=2, dropout=0.1)
            self.cell = nn.GRUCell(24, 12)
            self.head = nn.Linear(12, 1)

        def forward(self, x: Any) -> Any:
            y, _ = self.gru(x)
            h = lib.zeros(x.size(1), 12)
            out = []
            for t in range(y.size(0)):
                h = self.cell(y[t], h)
                out.append(self.head(h))
            return lib.stack(out)

    model = Net()
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-3)
    time = lib.arange(21).float()

    def losses() -> Iterator[Any]:
        while True:
            phase = lib.rand(8) * 6
            wave = lib.sin(time[:, None] * 0.4 + phase[None, :]).unsqueeze(-1)
            yield nn.functional.smooth_l1_loss(model(wave[:-1]), wave[1:])

    yield from fit(lib, model, optimizer, losses(), steps)


def transformer_encoder(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(5)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
            self.embedding = nn.Embedding(11, 32)
            self.position = nn.Parameter(lib.randn(10, 32) * 0.1)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 11)

        def forward(self, x: Any, padding: Any) -> Any:
            h = self.encoder(self.embedding(x) + self.position, src_key_padding_mask=padding)
            return self.head(h)

    model = Net()
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    schedule = lib.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 10))
    loss = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)

    def losses() -> Iterator[Any]:
        while True:
            x = lib.randint(1, 11, (6, 10))
            x[:, 8:] = lib.where(lib.rand(6, 2) < 0.5, 0, x[:, 8:])
            target = lib.where(x == 0, x, x.flip(1).clamp(min=1))
            yield loss(model(x, x == 0).transpose(1, 2), target)
            schedule.step()

    yield from fit(lib, model, optimizer, losses(), steps)


def gpt(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    F = nn.functional
    lib.manual_seed(6)
    width, heads, context, letters = 32, 4, 16, 13

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer(
                "mask", lib.tril(lib.ones(context, context)).view(1, 1, context, context)
            )

        def forward(self, x: Any) -> Any:
            b, t, c = x.size()
            q, k, v = self.qkv(x).split(width, dim=2)
            q, k, v = [u.view(b, t, heads, c // heads).transpose(1, 2) for u in (q, k, v)]
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = self.dropout(F.softmax(scores, dim=-1)) @ v
            return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.ln1(x))
            return x + self.mlp(self.ln2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(2)])
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
            self.tokens.weight = self.head.weight
            self.apply(self.start)

        def start(self, module: Any) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, x: Any) -> Any:
            h = self.tokens(x) + self.places(lib.arange(x.size(1)))
            for block in self.blocks:
                h = block(h)
            return self.head(self.ln(h))

    model = GPT()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = lib.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))

    def losses() -> Iterator[Any]:
        while True:
            x = lib.randint(0, letters, (8, 1)) + lib.arange(context + 1)
            x = x % letters
            scores = model(x[:, :-1])
            yield F.cross_entropy(scores.view(-1, letters), x[:, 1:].reshape(-1))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    yield from fit(lib, model, optimizer, losses(), steps)


def vae(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    F = nn.functional
    lib.manual_seed(7)

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(64, 40), nn.Linear(40, 6), nn.Linear(40, 6)
            self.fc3, self.fc4 = nn.Linear(6, 40), nn.Linear(40, 64)

        def forward(self, x: Any) -> Any:
            h = F.relu(self.fc1(x.view(-1, 64)))
            mu, logvar = self.fc21(h), self.fc22(h)
            std = lib.exp(0.5 * logvar)
            z = mu + lib.randn_like(std) * std
            return lib.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar

    model = VAE()
    x = (lib.rand(96, 1, 8, 8) > 0.6).float()
    loader = lib.utils.data.DataLoader(x, batch_size=24, shuffle=True)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)

    def losses() -> Iterator[Any]:
        for batch in endless(loader):
            y, mu, logvar = model(batch)
            fit = F.binary_cross_entropy(y, batch.view(-1, 64), reduction="sum")
            yield fit - 0.5 * lib.sum(1 + logvar - mu.pow(2) - logvar.exp())

    yield from fit(lib, model, optimizer, losses(), steps)


def gan(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(8)
    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    critic = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
        nn.Flatten(0),
    )
    model = nn.ModuleList([generator, critic])
    for m in model.modules():
        if type(m).__name__.startswith("Conv"):
            nn.init.normal_(m.weight, 0.0, 0.02)
    real = lib.rand(32, 1, 8, 8) * 2 - 1
    loss = nn.BCELoss()
    of_critic = lib.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_generator = lib.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    yield model
    for _ in range(steps):
        critic.zero_grad()
        first = loss(critic(real), lib.full((32,), 0.9))
        first.backward()
        fake = generator(lib.randn(32, 8, 1, 1))
        second = loss(critic(fake.detach()), lib.zeros(32))
        second.backward()
        of_critic.step()
        generator.zero_grad()
        third = loss(critic(fake), lib.ones(32))
        third.backward()
        of_generator.step()
        yield (first + second + third).item()


def dropout_net(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(9)
    model = nn.Sequential(
        nn.Dropout(0.2),
        nn.Linear(30, 50),
        nn.SELU(),
        nn.AlphaDropout(0.1),
        nn.Linear(50, 48),
        nn.Unflatten(1, (3, 4, 4)),
        nn.Dropout2d(0.3),
        nn.Conv2d(3, 4, 3),
        nn.ELU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(16, 3),
    )
    x, y = lib.randn(40, 30), lib.randn(40, 3)
    optimizer = lib.optim.NAdam(model.parameters(), lr=2e-3)

    def losses() -> Iterator[Any]:
        while True:
            yield nn.functional.mse_loss(model(x), y)

    yield from fit(lib, model, optimizer, losses(), steps)


def resnet(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    F = nn.functional
    lib.manual_seed(10)

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.shortcut = nn.Sequential()
            if stride != 1 or inside != outside:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + self.shortcut(x))

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    x, y = lib.randn(16, 3, 12, 12), lib.randint(0, 5, (16,))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    schedule = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)

    def losses() -> Iterator[Any]:
        while True:
            yield F.cross_entropy(model(x), y)
            schedule.step()

    yield from fit(lib, model, optimizer, losses(), steps)


def embedding_bag(lib: Any, steps: int) -> Iterator[Any]:
    nn = lib.nn
    lib.manual_seed(11)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(50, 12, mode="mean")
            self.norm = nn.GroupNorm(3, 12)
            self.head = nn.Linear(12, 4)
            nn.init.uniform_(self.bag.weight, -0.5, 0.5)

        def forward(self, text: Any, offsets: Any) -> Any:
            return self.head(self.norm(self.bag(text, offsets)))

    model = Net()
    optimizer = lib.optim.Adagrad(model.parameters(), lr=0.1)
    schedule = lib.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.8)

    def losses() -> Iterator[Any]:
        while True:
            counts = lib.randint(1, 7, (10,)).tolist()
            text = lib.randint(0, 50, (sum(counts),))
            offsets = lib.tensor([0, *counts[:-1]]).cumsum(0)
            label = text[offsets] % 4
            yield nn.functional.cross_entropy(model(text, offsets), label)
            schedule.step()

    yield from fit(lib, model, optimizer, losses(), steps)


PROGRAMS: dict[str, Program] = {
    "multi-layer perceptron": mlp,
    "LeNet": lenet,
    "character RNN": char_rnn,
    "LSTM with packed sequences": packed_lstm,
    "GRU": gru,
    "transformer encoder": transformer_encoder,
    "small GPT": gpt,
    "VAE": vae,
    "GAN": gan,
    "dropout-heavy net": dropout_net,
    "BatchNorm ResNet": resnet,
    "embedding bag": embedding_bag,
}
