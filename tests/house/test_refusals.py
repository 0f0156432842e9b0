"""Arguments that were refused before the core became lean still are, or have a replacement."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The functions that declare a field with the values that it may have.
DECLARED = {"positive", "nonnegative", "share", "count", "number", "flag", "float", "choice"}
DECLARED |= {"choices", "part", "parts", "loss_field"}


def name_of(node):
    """The last name of a dotted one, of what a call calls, or of a class with parameters."""
    node = getattr(node, "func", node)
    node = node.value if isinstance(node, ast.Subscript) else node
    return getattr(node, "attr", getattr(node, "id", ""))


def refused(folder):
    """The arguments that are refused, by the name of their class, whose bases count too.

    They are declared fields, and texts that name an argument in a call of ``require``.
    """
    own, bases = {}, {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            found = own.setdefault(node.name, set())
            bases.setdefault(node.name, set()).update(map(name_of, node.bases))
            found |= {
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.value, ast.Call)
                and name_of(field.value) in DECLARED
            }
            found |= {
                text.value
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and name_of(call).startswith("require")
                for text in call.args[2:3]
                if isinstance(text, ast.Constant) and isinstance(text.value, str)
            }

    def all_of(name):
        return own.get(name, set()).union(*(all_of(base) for base in bases.get(name, ())))

    return {name: all_of(name) for name in own}


#: The public classes of then, and the arguments that they refused by name.
BEFORE = """
AdaptiveKernelSelection: threshold
Algorithm: query
Aligned: models, num_aligned, query
BudgetSupport: budget, eviction
Cauchy: bandwidth
Checkpoints: minutes
Delayed: delay, learner
DenseSupport: capacity, tile
Disagreement: max_skips, relative, tolerance
DrawOne: cost, output, rate, smoothing
EpsilonInsensitive: epsilon, task
FeatureModels: features, kernels, rules
FourierFeatures: kernels, num_features, orthogonal, scale
FromOptax: learning_rate
Gaussian: bandwidth
GaussianWidths: coordinate, lower, per_input, start, upper
Hedge: bound, cost, output, rate
Hinge: task
Huber: task, threshold
HypothesisSketch: budget, loss, num_sampled, optimizer, query, space, step_size, threshold, ties
Intervals: coverage, learner, step_size
InverseTime: rate
KernelBox: lower, start, upper
KernelDictionary: kernels
LabelBudget: budget, learner
Lagged: errors, labels, learner
Laplacian: bandwidth
LearnedMetric: first, learner, power, repetitions, reservoir, shape
Learner: X, x, y
LikelihoodModels: bank, examples, first, rate, regularization, reservoir, shapes, steps
LinearFeatures: kernels
Logistic: task
Loss: task
MKL: aggregate, loss, models, num_outputs, query, select, task
MKLClassifier: learner
MKLRegressor: learner
Margin: h
MetricModels: bank, first, power, repetitions, reservoir, shapes
Mixture: bound, curvature, memories
MovingKernel: budget, loss, optimizer, query, space, step_size
MultiTask: components, covariance, dictionary, growth, inertia, kernel, loss, noise, num_inputs,
    num_tasks, query, rate, update_on
Multiple: factor, kernel
NormalizedOGD: epsilon, loss, step_size
OGD: loss, regularization, step_sizes
OnColumns: columns, kernel
OneVsRest: learner, num_classes
Optax: loss, transformation
OwnKernels: budget, loss, optimizer, query, space, step_size
PassiveAggressive: aggressiveness, normalized_step
Pinball: quantile, task
Pipeline: coverage
Polynomial: offset
Predictive: learner
Probabilities: learner, passthrough
Product: kernels
Project: threshold
RLS: forgetting, max_growth, period, regularization
Random: rate
Rate: by, epsilon, rate
Reservoir: latest, size, start
RunningMoments: clip
RunningRanks: capacity
Sampled: judge_sampled, smoothing
SampledDictionary: accuracy, density, kernels, ridge, size, tolerance
ScaledInputs: learner, scaler
ScaledTargets: clip, learner
SparsePassiveAggressive: alpha, beta, normalized_step, step_size
SparseRows: indices, num_columns, values
SparseSupport: capacity, tile
Squared: task
Stack: base, bound, lags, rule
Stationary: bandwidth
Sum: kernels
SupportModels: kernels, rule, store
TreeModels: depth, first, forgetting, groups, max_inputs, num_trees, reservoir
Uncertainty: h, inertia
Uniform: output
WeightedSum: kernels, weights
"""
#: What is gone has a line in the changelog's table of what replaces what.
GONE = {"LearnedMetric": "wrappers.learned_metric"}


def test_arguments_are_refused_by_name_as_they_were():
    known = refused(ROOT / "jaxmkl")
    before = dict(line.split(": ") for line in BEFORE.strip().replace("\n    ", " ").splitlines())
    missing = {name: {*arguments.split(", ")} - known.get(name, set())
               for name, arguments in before.items()}  # fmt: skip
    assert {name for name, arguments in missing.items() if arguments} == {*GONE}


def test_what_is_gone_has_its_replacement_in_the_changelog():
    changelog = (ROOT / "jaxmkl/guide/changelog.py").read_text("utf-8")
    assert not [name for name in GONE.values() if f"| `{name}` | " not in changelog]
