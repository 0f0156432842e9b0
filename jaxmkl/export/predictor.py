"""Predict by NumPy alone with a file of ``jaxmkl export``: load("model.npz").predict(rows)."""

import datetime
import functools
import json
import re
import warnings

import numpy as np


def _standardise(x, kept, least, most, number, mean, variance, of_mean, of_variance):
    """Inputs (B, D) by running moments, in which each row counts as the next one."""
    near = np.clip(x, least, most)
    now = mean + ((near - mean) / number + of_mean)
    v = variance + (((near - mean) * (near - now) - variance) / number + of_variance)
    return np.where(kept, x, (near - now) / np.sqrt(np.where(v > 0, v, np.inf))).astype(float)


def _fourier(x, frequencies, vector, weights):
    """Values (B, K, E) of weights (K, E, 2 F), each on the waves of a vector of frequencies."""
    t = 2 * np.pi * (x @ frequencies.reshape(-1, x.shape[1]).T).reshape(-1, *frequencies.shape[:2])
    return np.einsum("bem,kem->bke", np.c_[np.sin(t), np.cos(t)][:, vector], weights)


def _trees(x, links, thresholds, roots, leaves, weights, start, is_log_odds):
    """Values (B, K, E) by weights of leaves; split s leads to links[3 s] or to the next."""
    split = np.zeros((len(x), len(roots)), int)
    while (split >= 0).any():
        at = roots + np.maximum(split, 0)
        right = np.take_along_axis(x, links[3 * at + 2], axis=1) > thresholds[at]
        split = np.where(split < 0, split, links[3 * at + right])
    values = np.einsum("et,btk->bke", weights, leaves[roots + ~split]) + start
    return np.where(is_log_odds, np.tanh(values / 2), values)


def _combine(x, least, most, weights, stack, least_stack, most_stack, shares):
    """Shares of a mean m of values (B, K, E), and of regressions on m and the values less m."""
    x = np.clip(x, least[:, None], most[:, None])
    m = (x * weights).sum(axis=-1, keepdims=True)
    stacks = m + np.einsum("bke,kre->bkr", np.c_[x - m, m], stack)
    return (np.c_[m, stacks.clip(least_stack[:, None], most_stack[:, None])] * shares).sum(axis=-1)


def _calibrate(x, scale, half, signs, sure, large, weights, log_shares):
    """Log probabilities of the classes (B, K) by a mixture of two models; of two, x is [-f, f]."""
    p = np.clip((1 + x) / 2, 1 - sure, sure)
    rows = large * np.tanh(scale * x / large), np.log(p) - np.log1p(-p), signs
    each = half * np.stack([scale * x, sum(w * r for w, r in zip(weights, rows, strict=False))])
    each = each - np.logaddexp.reduce(each, axis=-1, keepdims=True)
    return np.logaddexp(*(log_shares[:, None, None] + each))


_OPERATIONS = {f.__name__: f for f in (_standardise, _fourier, _trees, _combine, _calibrate)} | {
    "_chain": lambda first, then, x: then(first(x)),
    "_join": lambda *inside: np.concatenate([call(inside[-1]) for call in inside[:-1]], axis=-1),
    "_linear": lambda x, weights, constants: np.einsum("bd,ked->bke", x, weights) + constants,
    "_apart": lambda x, more, far, of: more * (np.sum(x * x, axis=1) + of[:, None]) - far @ x.T,
    "_near": lambda d, p, y: (y.T @ (w := (d.min(axis=0) / d) ** p) / w.sum(axis=0)).T[..., None],
    "_affine": lambda x, shift, scale: shift + scale * x,
}


def _read(cell, head, kind, edits=(("\u2212", "-"), ("[^0-9.eE+-]", "?")), **_):
    """A cell as a number or seconds, NaN if missing, infinite if neither; or a word, or ?."""
    is_text, text = isinstance(cell, str), str(cell).strip(head.get("blanks"))
    if cell is None or text.lower() in head["words"] or cell != cell or cell in head["numbers"]:
        return np.nan if kind in ("number", "time") else "?"
    if kind not in ("number", "time"):
        word = text if is_text else text.removesuffix(".0")
        return word.lower() if kind == "boolean" or isinstance(cell, bool | np.bool_) else word
    cell = np.timedelta64(cell) / np.timedelta64(1, "s") if "delta" in str(type(cell)) else cell
    bare = functools.reduce(lambda bare, edit: re.sub(*edit, bare), edits, text)
    try:
        if kind == "number":  # edits of durations lead to seconds:minutes:hours:days
            parts = zip(bare.split(":") if is_text else [cell], (1, 60, 3600, 86400), strict=False)
            return sum(float(part) * unit for part, unit in parts) / (100 if "%" in text else 1)
        return datetime.datetime.fromisoformat(bare).timestamp()  # edits give it a zone
    except (TypeError, ValueError, OverflowError):
        return np.inf


def _inputs(cells, head, name, kind, codes=None, default=None, turns=(), **own):
    fast = (int, float, np.float64) if kind == "number" and not head["numbers"] else ()
    found = [c if type(c) in fast and abs(c) < 9e9 else _read(c, head, kind, **own) for c in cells]
    if kind == "text":  # TF-IDF, scaled to a mean square of 1
        X = np.zeros((len(cells), len(codes)))
        for x, words in zip(X, (re.findall(r"\w+", w.lower()) or [w] for w in found), strict=True):
            for word in {*words, " ".join(words[: 4 * (len(words) < 4)])} & codes.keys():
                x[codes[word][0]] = (1 + np.log(max(words.count(word), 1))) * codes[word][1]
        return X / np.sqrt(np.maximum(np.mean(X**2, axis=1, keepdims=True), 1e-99))
    if codes is not None:
        return np.array([codes.get(word, default) for word in found], float)
    t, gaps = np.array(found, float), np.isnan(found)
    X = np.where(gaps, own["mean"], (t - own.get("since", 0)) / own.get("unit", 1)) - own["start"]
    for row in np.flatnonzero(~(np.abs(X) <= head["bound"])):
        raise ValueError(f"predict: column {name!r}: {cells[row]!r} is no {kind}, or too large")
    waves = [f(2 * np.pi * ((t + t0) / size % 1)) for t0, size in turns for f in (np.sin, np.cos)]
    return np.nan_to_num(np.stack([X, *waves, *[gaps] * own["missing"]], axis=1))


class Predictor:
    """An exported pipeline; :func:`load` makes one."""

    def __init__(self, header, arrays):
        def built(name, inside=(), **names):
            inner, given = [built(**o) for o in inside], {k: arrays[a] for k, a in names.items()}
            return functools.partial(_OPERATIONS[f"_{name}"], *inner, **given)

        if header["format"] not in (1, 2, 3, 4, 5):
            raise ValueError(f"it has format {header['format']}; this module reads up to 5")
        self.header, self._call = header, built(**header["operation"])

    def predict(self, data):
        """Names of classes, or numbers (n,), of rows [{"a": 1.5}], of one, or of columns."""
        values, names = self.values(self.encode(data)), np.array(self.header["classes"])
        return names[values.argmax(axis=1)] if len(names) else self.header["start"] + values[:, 0]

    def predict_proba(self, data):
        """Probabilities (n, K) of the classes in their order."""
        if not self.header["has_probabilities"]:
            raise ValueError("predict_proba: the pipeline must predict probabilities of classes")
        return np.exp(self.values(self.encode(data)))

    def values(self, X):
        """Numbers less their start (n, 1), or log-odds of the classes (n, K), of inputs (n, D)."""
        return np.concatenate([self._call(X[i : i + 512]) for i in range(0, len(X), 512)])

    def encode(self, data):
        """The inputs (n, D); a column that is not there is missing in all rows, with a warning."""
        head, rows = self.header, [data] if isinstance(data, dict) else data
        wanted = {column["name"]: column for column in head["columns"]}
        if rows is data or all(isinstance(c, str) or not np.iterable(c) for c in data.values()):
            data = {n: [r.get(n) for r in rows] for n in wanted if any(n in r for r in rows)}
        if len(sizes := {len(data[n]) for n in wanted.keys() & data.keys()}) != 1 or 0 in sizes:
            raise ValueError(f"predict: data must have rows, with some of the columns {[*wanted]}")
        if absent := sorted(wanted.keys() - data.keys()):
            warnings.warn(f"columns that count as missing: {absent}", stacklevel=3)
        cells = dict.fromkeys(wanted, [None] * max(sizes)) | data
        return np.hstack([_inputs(cells[n], head, **c) for n, c in wanted.items()]).astype("f4")


def load(path):
    """Read a file of ``jaxmkl export``; a ValueError says that it is none, or damaged."""
    with open(path, "rb") as file:
        try:
            arrays = dict(np.load(file, allow_pickle=False))
            return Predictor(json.loads(arrays.pop("header").tobytes()), arrays)
        except Exception as error:
            raise ValueError(f"{path} is no exported predictor, or damaged: {error}") from None
