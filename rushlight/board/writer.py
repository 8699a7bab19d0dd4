"""``SummaryWriter``: what a training run says about itself, for TensorBoard to show."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np

from rushlight.board import summaries
from rushlight.board.events import EventFile
from rushlight.board.graph import graph_event
from rushlight.board.pictures import as_array, as_hwc
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class SummaryWriter:
    """Writes event files into a folder that ``tensorboard --logdir`` shows.

    Args:
        log_dir: the folder; by default ``runs/DATE_HOST`` and ``comment``.
        comment: what to add to the default folder's name.
        purge_step: accepted for PyTorch programs.
        flush_secs: how many seconds may pass until what was added is in the file.
        filename_suffix: what to add to the file's name.

    >>> import tempfile
    >>> with rl.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            day = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{day}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.flush_secs, self.suffix = flush_secs, filename_suffix
        self.files: dict[str, EventFile] = {}
        self._event_file(self.log_dir)

    def _event_file(self, folder: str) -> EventFile:
        if folder not in self.files:
            self.files[folder] = EventFile(folder, self.suffix, self.flush_secs)
        return self.files[folder]

    def _add(self, event: bytes, step: Any, walltime: float | None) -> None:
        number = None if step is None else int(step)
        self._event_file(self.log_dir).add(event, number, walltime)

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a curve."""
        value = number(tag, scalar_value)
        if new_style or double_precision:
            event = summaries.scalar_tensor(tag, value, double_precision)
        else:
            event = summaries.scalar(tag, value)
        self._add(event, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers of several curves to be drawn into one picture."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag}_{tag}".replace("/", "_"))
            event = summaries.scalar(main_tag, number(tag, value))
            step = None if global_step is None else int(global_step)
            self._event_file(folder).add(event, step, walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """All elements of a tensor."""
        self._add(summaries.tensor(tag, as_array(tensor)), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread, such as a layer's weights."""
        event = summaries.histogram(tag, as_array(values), bins, max_bins)
        self._add(event, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: floating-point pixels between 0 and 1, or bytes."""
        self._add(summaries.image(tag, as_hwc(img_tensor, dataformats)), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of pictures, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A Matplotlib figure, or a list of them."""
        figures = figure if isinstance(figure, list) else [figure]
        for item in figures:
            if not callable(getattr(item, "savefig", None)):
                raise TypeError(f"add_figure(): expected a Matplotlib figure, got {type(item)}")
            item.canvas.draw()
            pixels = np.asarray(item.canvas.buffer_rgba())
            self._add(summaries.image(tag, pixels), global_step, walltime)
            if close:
                item.clf()

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound: samples between −1 and 1."""
        event = summaries.audio(tag, as_array(snd_tensor), sample_rate)
        self._add(event, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text in Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_graph(
        self,
        model: Module,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of a model: what ``model(input_to_model)`` computes."""
        if not isinstance(model, Module):
            raise TypeError(f"add_graph(): expected a Module, got {type(model).__name__}")
        if input_to_model is None:
            raise ValueError("add_graph(): pass an example input: add_graph(model, x)")
        self._add(graph_event(model, input_to_model), None, None)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predicted probabilities against true labels."""
        truth, guess = as_array(labels).ravel(), as_array(predictions).ravel()
        event = summaries.curve(tag, truth, guess, weights, num_thresholds)
        self._add(event, global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Any]]) -> None:
        """How to arrange curves: {page: {chart: ["Multiline" or "Margin", [tags]]}}."""
        self._add(summaries.layout(layout), None, None)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """The hyper-parameters of a run, and the metrics it reached, for comparing runs."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("add_hparams(): hparam_dict and metric_dict should be dictionaries.")
        plain = {k: number(k, v) if isinstance(v, Tensor) else v for k, v in hparam_dict.items()}
        events = summaries.choices(plain, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        file = self._event_file(folder)
        for event in events:
            file.add(event, global_step)
        for tag, value in metric_dict.items():
            file.add(summaries.scalar(tag, number(tag, value)), global_step)

    def flush(self) -> None:
        """Puts all that was added into the files."""
        for file in self.files.values():
            file.flush()

    def close(self) -> None:
        """Closes the files; adding more opens new ones."""
        for file in self.files.values():
            file.close()
        self.files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def number(tag: str, value: Any) -> float:
    """A Python number, from a number, a tensor or an array of one element."""
    if isinstance(value, (Tensor, np.ndarray)):
        size = value.numel() if isinstance(value, Tensor) else value.size
        if size != 1:
            raise ValueError(f"{tag!r}: expected one number, got shape {tuple(value.shape)}")
        return float(value.item())
    if isinstance(value, (int, float, np.number)):
        return float(value)
    raise TypeError(f"{tag!r}: expected a number, got {type(value).__name__}")
