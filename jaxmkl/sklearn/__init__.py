"""Estimators for scikit-learn (the extra ``sklearn``); ``import jaxmkl`` does not load them.

    MKLRegressor     numbers, one target or several
    MKLClassifier    two classes or several, with probabilities
    PoolSelector     the choice of rows of a pool to label first

They work in pipelines, grid searches, ``clone`` and pickles. The arguments of the learner's recipe
are parameters of the estimator under their own names:

>>> from sklearn.model_selection import GridSearchCV
>>> estimator = MKLClassifier("expert_mkl", num_features=40, random_state=0)
>>> search = GridSearchCV(estimator, {"num_features": [20, 40], "regularization": [0.01, 0.1, 1]})

The numbers of a learner are leaves, and streams are padded to a small set of lengths, so the folds
of a cross-validation, and all its candidates that differ only in numbers, share a compiled
program.
"""

try:
    from jaxmkl.sklearn._estimators import MKLClassifier, MKLRegressor
    from jaxmkl.sklearn._pool import PoolSelector
except ImportError as error:
    if (error.name or "").partition(".")[0] in ("sklearn", "scipy"):
        text = "jaxmkl.sklearn needs scikit-learn, 1.6 or newer: pip install 'jaxmkl[sklearn]'"
        raise ImportError(text) from error
    raise

__all__ = ["MKLClassifier", "MKLRegressor", "PoolSelector"]
