"""First ten minutes: with a table.

In a terminal, one command reads a file, decides what its columns become, predicts each row before
it learns the row's label, and saves what it learned. Another command predicts:

    pip install -e ".[cli]"
    jaxmkl run trees.csv --target height --save trees.npz --report trees.html
    jaxmkl predict trees.npz other.csv --out predictions.csv

The table on the screen has the error of the learner beside those of two baselines that ignore the
inputs, of linear regression and, with scikit-learn, of gradient boosting
(:mod:`jaxmkl.guide.own_data`). If the learner is no better than the first two, either the columns
say little about the target, or the order of the rows says too much (:mod:`jaxmkl.guide.choose`).
In Python, ``jaxmkl.load_pipeline("trees.npz").predict(frame)`` takes a DataFrame.

With arrays, the estimators of scikit-learn learn in one pass over the rows. They scale inputs and
targets by themselves:

>>> from sklearn.datasets import load_diabetes
>>> from jaxmkl.sklearn import MKLRegressor
>>> X, y = load_diabetes(return_X_y=True)
>>> model = MKLRegressor("expert_mkl", banks="fixed", num_features=20, shuffle=True)
>>> model = model.fit(X[:300], y[:300])
>>> model.score(X[300:], y[300:]) > 0.3
True
>>> values, deviations = model.predict(X[300:], return_std=True)    # with standard deviations
>>> model = model.partial_fit(X[300:], y[300:])                     # continues to learn

- **Nothing to tune**: ``expert_mkl``, the default, tries step sizes and kernels side by side and
  weighs them. With ``banks="fixed"`` it does not learn kernels, and is four times as fast.
- **Faster**: ``MKLRegressor("raker")``, or ``jaxmkl run FILE --learner raker``.
- **Classes**: ``MKLClassifier`` has probabilities, ``predict_proba``.
- **Which inputs matter**: ``jaxmkl run`` names them; estimators have ``feature_importances_``.

Next: :mod:`jaxmkl.guide.own_data`, :mod:`jaxmkl.guide.certainty` (intervals, densities),
:mod:`jaxmkl.guide.drift`, :mod:`jaxmkl.guide.troubleshooting`.
"""
