"""A pipeline of random weights, which takes no training, for tests of exports."""

import jax
import numpy as np

import jaxmkl
from jaxmkl._moments import Moments
from jaxmkl.tables import Columns, Pipeline, Seen, open_table
from jaxmkl.wrappers import RunningMoments, scaled

SMALL = {"num_features": 4}


def drawn(table, as_=None):
    """A pipeline of a table of up to 100 rows, with the column y of numbers."""
    chunk = next(open_table(table).chunks(100))
    columns = Columns.decide(chunk, "y", as_=as_)
    X, fills = columns.inputs(chunk, columns.init())
    learner = scaled(jaxmkl.raker(jaxmkl.Gaussian(1.0), **SMALL), RunningMoments())
    state = learner.init(jax.random.key(0), X.shape[1])
    moments = Moments(X.mean(axis=0), X.var(axis=0), np.zeros((2, X.shape[1]), np.float32))
    scaler = state.scaler._replace(num_seen=np.int32(len(X)), of_all=moments)
    bank, draws = state.inner.models[0], np.random.default_rng(0)
    weights = draws.normal(size=bank.rules[0].weights.shape).astype(np.float32)
    bank = bank._replace(rules=(bank.rules[0]._replace(weights=weights),))
    state = state.replace(scaler=scaler, inner=state.inner.replace(models=(bank,)))
    return Pipeline(learner, state, columns, fills, len(X), seen=Seen(0.5))


def inputs(pipeline, rows):
    """The inputs (n, D) of rows or columns, as the pipeline reads them."""
    chunk = next(pipeline.open(rows).chunks(100))
    return pipeline.columns.inputs(chunk, pipeline.fills, learn=False)[0]
