"""Models of classical statistics, as far as they are about numbers (``ai.onnx.ml``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor

DOMAIN = "ai.onnx.ml"

TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "SOFTMAX": lambda x: ops.softmax(x, -1),
    "LOGISTIC": ops.sigmoid,
}


def transformed(scores: Tensor, name: str) -> Tensor:
    if name not in TRANSFORMS:
        raise OnnxError(f"post_transform={name!r} is not supported")
    return TRANSFORMS[name](scores)


def vector(values: Sequence[float]) -> Tensor:
    return tensor_of(np.array(values, np.float32))


@op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(x: Tensor, y: Tensor) -> Tensor:
    found = x.index_select(-1, y.reshape(-1))
    return found.reshape(1, -1) if x.ndim == 1 else found


@op("Binarizer", domain=DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@op("Scaler", domain=DOMAIN)
def scaler(x: Tensor, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Tensor:
    y = x.to(dtypes.float32)
    y = y - vector(offset) if offset else y
    return y * vector(scale) if scale else y


@op("Imputer", domain=DOMAIN)
def imputer(
    x: Tensor,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Other values in the place of those that stand for nothing, NaN perhaps."""
    if imputed_value_int64s:
        new = tensor_of(np.array(imputed_value_int64s, np.int64))
        return ops.where(x == replaced_value_int64, new, x)
    nothing = ops.isnan(x) if np.isnan(replaced_value_float) else x == replaced_value_float
    return ops.where(nothing, vector(imputed_value_floats), x)


@op("Normalizer", domain=DOMAIN)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    x = x.to(dtypes.float32)
    match norm:
        case "L1":
            length = x.abs().sum(-1, keepdim=True)
        case "L2":
            length = x.square().sum(-1, keepdim=True).sqrt()
        case _:
            length = ops.amax(x.abs(), -1, keepdim=True)
    return x / ops.where(length == 0, 1.0, length)


@op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(*xs: Tensor, inputdimensions: Sequence[int] = ()) -> Tensor:
    return ops.cat([x.reshape(x.shape[0], -1).to(dtypes.float32) for x in xs], 1)


@op("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    x: Tensor,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    y = ops.matmul(x.to(dtypes.float32), vector(coefficients).reshape(targets, -1).t())
    return transformed(y + vector(intercepts) if intercepts else y, post_transform)


@op("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    x: Tensor,
    *,
    classlabels_ints: Sequence[int],
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> Any:
    """The label of the best score, and all scores."""
    count, features = len(classlabels_ints), x.shape[-1]
    if len(coefficients) < count * features:
        raise OnnxError("there must be a row of coefficients for each class")
    weight = vector(coefficients[: count * features]).reshape(count, features)
    scores = ops.matmul(x.to(dtypes.float32), weight.t())
    scores = scores + vector(intercepts) if intercepts else scores
    labels = tensor_of(np.array(classlabels_ints, np.int64))
    return labels[scores.argmax(-1)], transformed(scores, post_transform)


@op("ZipMap", domain=DOMAIN, raw=True)
def zip_map(x: Any, *, classlabels_int64s: Sequence[int]) -> list[dict[int, Tensor]]:
    """A dictionary for each row."""
    return [dict(zip(classlabels_int64s, row.unbind(), strict=True)) for row in tensor_of(x)]


@op("LabelEncoder", domain=DOMAIN)
def label_encoder(
    x: Tensor,
    *,
    keys_int64s: Sequence[int] = (),
    keys_floats: Sequence[float] = (),
    keys_tensor: np.ndarray | None = None,
    values_int64s: Sequence[int] = (),
    values_floats: Sequence[float] = (),
    values_tensor: np.ndarray | None = None,
    default_int64: int = -1,
    default_float: float = -0.0,
    default_tensor: np.ndarray | None = None,
) -> Tensor:
    """The value of the key that an element is equal to."""
    keys = listed(keys_int64s, keys_floats, keys_tensor)
    values = listed(values_int64s, values_floats, values_tensor)
    other = default_float if values.dtype.kind == "f" else default_int64
    last = np.array([other]) if default_tensor is None else default_tensor.reshape(1)
    table = tensor_of(np.concatenate([values, last.astype(values.dtype)]))
    equal = x.unsqueeze(-1) == tensor_of(keys)
    place = ops.where(equal.any(-1), equal.to(dtypes.uint8).argmax(-1), len(keys))
    return table[place]


def listed(whole: Sequence[int], floats: Sequence[float], array: np.ndarray | None) -> np.ndarray:
    """Numbers that a file gives in one of three ways."""
    if array is not None:
        return array.reshape(-1)
    if not whole and not floats:
        raise OnnxError("keys and values that are numbers are needed")
    return np.array(whole, np.int64) if whole else np.array(floats, np.float32)


@op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(x: Tensor, *, cats_int64s: Sequence[int], zeros: int = 1) -> Tensor:
    """A one in the place of the category of each element; only zeros, if it has none."""
    found = x.unsqueeze(-1) == tensor_of(np.array(cats_int64s, np.int64))
    return found.to(dtypes.float32)


@op("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Tensor,
    *,
    mode: str,
    pool_int64s: Sequence[int],
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    weights: Sequence[float] = (),
    min_gram_length: int,
    max_gram_length: int,
    max_skip_count: int,
) -> Tensor:
    """How often each sequence of a pool is found, with up to so many elements skipped in between.

    ``ngram_counts`` says where the sequences of one, two, … elements begin in the pool.
    """
    if mode not in ("TF", "IDF", "TFIDF"):
        raise OnnxError(f"mode={mode!r} is not supported")
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    ends = [*ngram_counts[1:], len(pool_int64s)]
    counts = []
    for n, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        grams = np.array(pool_int64s[start:end], np.int64).reshape(-1, n)
        total = ops.zeros(rows.shape[0], len(grams))
        if min_gram_length <= n <= max_gram_length:
            for step in range(1, max_skip_count + 2 if n > 1 else 2):
                total = total + found_in(rows, grams, step)
        counts.append(total)
    found = ops.cat(counts, 1)
    if mode == "IDF":
        found = (found > 0).to(dtypes.float32)
    if mode != "TF" and weights:
        found = found * vector(weights)
    y = ops.zeros(rows.shape[0], max(ngram_indexes) + 1)
    y = y.index_add(1, tensor_of(np.array(ngram_indexes, np.int64)), found)
    return y[0] if x.ndim == 1 else y


def found_in(rows: Tensor, grams: np.ndarray, step: int) -> Tensor:
    """How often each of some sequences of equal length is in a row, at every ``step``-th place."""
    n, length = grams.shape[1], rows.shape[1]
    count = length - (n - 1) * step
    if count <= 0:
        return ops.zeros(rows.shape[0], len(grams))
    windows = ops.stack([rows[:, k * step : k * step + count] for k in range(n)], -1)
    equal = (windows.unsqueeze(2) == tensor_of(grams)).all(-1)
    return equal.to(dtypes.float32).sum(1)
