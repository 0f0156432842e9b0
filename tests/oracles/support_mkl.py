"""The support-vector learners in plain NumPy: one example, one kernel at a time, in float64.

Written beside the paper (Lu, Hoi, Sahoo and Zhao, Budget Online Multiple Kernel Learning,
Algorithm 1 and section 4.3) and what it compares with (Hoi et al. 2013, OMKC; Dekel et al. 2005,
Forgetron; Orabona et al. 2009, Projectron; Wang and Vucetic 2010, BPA; Zhao et al. 2012, BOGD;
Sahoo et al. 2014, OMKL), and sharing no code with the library.

What is random comes from outside: the uniform numbers of each round.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Array = np.ndarray
KernelFunction = Callable[[Array, Array], Array]  # rows (n, D) or one (D,), and one input (D,)

TINY = float(np.finfo(np.float64).tiny)
RULES = ("perceptron", "pa", "spa", "ogd")
POLICIES = ("random", "unbiased", "by size", "oldest", "forgetron", "replace", "project")


# --- kernels -------------------------------------------------------------------------------------


def gaussian(bandwidth: float) -> KernelFunction:
    def kernel(x: Array, z: Array) -> Array:
        return np.exp(-np.sum((x - z) ** 2, axis=-1) / (2.0 * bandwidth**2))

    return kernel


def polynomial(degree: int) -> KernelFunction:
    def kernel(x: Array, z: Array) -> Array:
        return np.sum(x * z, axis=-1) ** degree

    return kernel


# --- one kernel's function -----------------------------------------------------------------------


@dataclass
class Entry:
    """A stored example: the round it came in, its input, its label and its coefficient."""

    t: int
    x: Array
    y: float
    coefficient: float


@dataclass
class Expansion:
    """f = sum of coefficient k(x, .) over the entries; the place of an entry is its index.

    ``damage`` and ``errors`` are Q and M of the Forgetron; M counts the mistakes it learned from.
    """

    kernel: KernelFunction
    entries: list[Entry] = field(default_factory=list)
    damage: float = 0.0
    errors: int = 0

    def kernel_values(self, x: Array) -> Array:
        """k(x_r, x) of every place r, (n,)."""
        if not self.entries:
            return np.zeros(0)
        return self.kernel(np.array([entry.x for entry in self.entries]), x)

    def value(self, x: Array) -> float:
        """f(x); a value too small for a float64 becomes the smallest normal one of its sign."""
        coefficients = np.array([entry.coefficient for entry in self.entries], np.longdouble)
        total = coefficients @ self.kernel_values(x)
        f = float(total)
        return math.copysign(TINY, total) if f == 0 and total != 0 else f

    def shrink(self, factor: float) -> None:
        for entry in self.entries:
            entry.coefficient *= factor

    def oldest(self) -> int:
        """The place of the entry that came first."""
        return min(range(len(self.entries)), key=lambda r: self.entries[r].t)


def quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf


def shrinking_factor(d: float, mu: float, damage: float, errors: int) -> float:
    """The largest phi in (0, 1] with Q + (d phi)^2 + 2 d phi (1 - phi mu) <= 15/32 M.

    Q <= 15/32 (M - 1) by the rounds before, so phi = 0 is strictly allowed and the first root
    beyond it, where there is one below 1, is the largest phi. It is written so that nothing
    cancels, and that it holds for a quadratic term of either sign or none.
    """
    a, b, c = d**2 - 2.0 * d * mu, 2.0 * d, damage - 15.0 / 32.0 * errors
    if a + b + c <= 0:
        return 1.0
    return -2.0 * c / (b + math.sqrt(b**2 - 4.0 * a * c))


# --- the learner ---------------------------------------------------------------------------------


class Wish(NamedTuple):
    """The support that a rule would add: its coefficient, and rho, its own probability."""

    coefficient: float
    rho: float = 1.0


@dataclass
class SupportMKL:
    """OMKC, BOMKC and OMKL: a function of stored examples for each kernel, and their combination.

    Of each round: all kernels predict; the combination predicts with the weights so far; weights
    are discounted; kernels learn, by their predictions and by chances from the weights before the
    discount; weights are normalised. A round whose label is not asked for ends with the
    prediction.

    Args:
      kernels: the P kernel functions.
      rule: "perceptron", "pa", "spa" or "ogd".
      loss: of the rule "ogd": "hinge" or "squared" (regression).
      cap: C of "pa" and of the policy "replace".
      rate: eta of "spa" and "ogd".
      alpha: of "spa".
      beta: of "spa".
      regularization: lambda of "ogd", whose coefficients shrink in every round in which the
        kernel takes part, also in one in which its loss is 0: only a kernel that was sampled
        does, and none where the label is not asked for.
      normalized_step: False puts 1 for k(x, x) in the steps (and in the objective of "replace";
        the projection is not a step).
      budget: the most entries of a kernel; None for no limit, only without a policy.
      policy: what happens when a kernel is full: "random"; "unbiased" and "by size", at random
        too, and what stays is divided by its probability to stay (BOGD and BOGD++); "oldest",
        "forgetron" (of the perceptron), "replace" (of "pa") or "project" (which also looks at
        each example before).
      largest: of "unbiased" and "by size": the most that a coefficient is enlarged to.
      threshold: of "project": the squared distance from the span above which an example is kept.
      weighting: "uniform" or "hedge".
      combination: "value", sum of w f, or "vote", sum of w s(f), s(f) = 1 for f >= 0, else -1.
      discount: of "hedge": "mistake", "hinge" or "squared".
      gamma: of the discounts "mistake" and "hinge".
      hedge_rate: of the discount "squared".
      sampled: whether a kernel learns with probability p = (1 - delta) w / max w + delta times
        its rule's rho; otherwise p = 1 (the rho of "spa" stays).
      combine_sampled: whether only kernels that are drawn with that p are combined, by the same
        numbers u, with weights renormalised.
      delta: the smallest p.
      discount_sampled: whether the weight of a kernel with u >= p is left as it is.
      h: the label is asked for with probability h / (h + |prediction|).
      threshold_of_weights: None for all kernels active; else adaptive kernel selection (Hong
        and Chae): after each label some are drawn that are active until the next one, with weights
        renormalised, one by its weight and each other one with probability K / P, K the number of
        weights above this share of the largest.
    """

    kernels: Sequence[KernelFunction]
    rule: str = "perceptron"
    loss: str = "hinge"
    cap: float = 1.0
    rate: float = 0.1
    alpha: float = 1.0
    beta: float = 3.0
    regularization: float = 0.1
    normalized_step: bool = True
    budget: int | None = None
    policy: str | None = None
    largest: float = math.inf
    threshold: float = 0.0
    weighting: str = "hedge"
    combination: str = "vote"
    discount: str = "mistake"
    gamma: float = 0.99
    hedge_rate: float = 1.0
    sampled: bool = False
    combine_sampled: bool = False
    delta: float = 0.001
    discount_sampled: bool = False
    h: float = math.inf
    threshold_of_weights: float | None = None

    def __post_init__(self) -> None:
        assert self.rule in RULES
        assert self.loss in ("hinge", "squared")
        assert self.policy is None or self.policy in POLICIES
        assert (self.budget is None) == (self.policy is None)
        assert self.budget is None or self.budget >= 1
        assert self.policy != "forgetron" or self.rule == "perceptron"
        assert self.policy != "replace" or self.rule == "pa"
        assert self.weighting in ("uniform", "hedge")
        assert self.combination in ("value", "vote")
        assert self.discount in ("mistake", "hinge", "squared")
        self.expansions = [Expansion(kernel) for kernel in self.kernels]
        self.weights = np.full(len(self.kernels), 1.0 / len(self.kernels))
        self.f = np.zeros(len(self.kernels))
        self.active = np.ones(len(self.kernels), bool)
        self.mistakes = self.labels = 0
        self.t = 0

    @property
    def places(self) -> list[list[tuple[int, float]]]:
        """For each kernel, by place: the round that added the entry, and its coefficient."""
        return [[(e.t, e.coefficient) for e in one.entries] for one in self.expansions]

    @property
    def support(self) -> list[int]:
        """How many entries each kernel has."""
        return [len(one.entries) for one in self.expansions]

    def step(
        self, x: Array, y: float, u: Array, v: Array, q: float = 0.0, s: Array | None = None
    ) -> float:
        """One round.

        The numbers u (P,) decide who is sampled, v (P,) which place is emptied at random, q
        whether the label is asked for, s (2, P) which are active after it: the first row, by the
        Gumbel trick, which one is drawn by its weight, the second which others.
        """
        x, y = np.asarray(x, np.float64), float(y)
        self.f = np.array([one.value(x) for one in self.expansions])
        drawn = u < self.probabilities() if self.combine_sampled else np.ones(len(u), bool)
        prediction = self.combine(self.active & drawn)
        if math.isfinite(self.h) and q * (self.h + abs(prediction)) >= self.h:
            self.t += 1
            return prediction
        self.labels += 1
        if not (self.rule == "ogd" and self.loss == "squared"):
            self.mistakes += y * prediction <= 0  # a score of 0 too
        chance = self.chances()
        for i, one in enumerate(self.expansions):
            f = float(self.f[i])
            if self.weighting == "hedge" and (u[i] < chance[i] or not self.discount_sampled):
                self.weights[i] *= self.discount_factor(f, y)
            wish = self.wish(one, x, y, f)
            if self.rule == "ogd" and u[i] < chance[i]:
                one.shrink(1.0 - self.rate * self.regularization)
            if wish is not None and u[i] < chance[i] * wish.rho:
                self.add(one, Entry(self.t, x, y, wish.coefficient), f, v[i])
        total = float(np.sum(self.weights))
        assert total > 0, "all weights are 0 in float64"
        self.weights = self.weights / total
        if self.threshold_of_weights is not None:
            assert s is not None
            self.active = s[1] < np.mean(
                self.weights / self.weights.max() > self.threshold_of_weights
            )
            self.active[np.argmax(np.log(self.weights) - np.log(-np.log(s[0])))] = True
        self.t += 1
        return prediction

    def combine(self, active: Array) -> float:
        total = 0.0
        weights = np.where(active, self.weights, 0.0)
        for w, f in zip(weights / np.sum(weights), self.f, strict=True):
            if self.combination == "value":
                total += w * f
            else:
                total += w if f >= 0 else -w
        return float(total)

    def chances(self) -> Array:
        """The probability to learn of each kernel, (P,)."""
        return self.probabilities() if self.sampled else np.ones(len(self.kernels))

    def probabilities(self) -> Array:
        """p of each kernel, (P,)."""
        return (1.0 - self.delta) * self.weights / self.weights.max() + self.delta

    def discount_factor(self, f: float, y: float) -> float:
        if self.discount == "mistake":
            return self.gamma if y * f <= 0 else 1.0
        if self.discount == "hinge":
            return self.gamma ** max(0.0, 1.0 - y * f)
        return math.exp(-self.hedge_rate * (f - y) ** 2)

    def squared_norm(self, one: Expansion, x: Array) -> float:
        """k(x, x), or what the steps put for it."""
        return float(one.kernel(x, x)) if self.normalized_step else 1.0

    def wish(self, one: Expansion, x: Array, y: float, f: float) -> Wish | None:
        """The support that the rule would add after the prediction f; None if it adds none."""
        if self.rule == "perceptron":
            return Wish(y) if y * f <= 0 else None
        if self.rule == "ogd" and self.loss == "squared":
            return Wish(2.0 * self.rate * (y - f))
        if self.rule == "ogd":
            return Wish(self.rate * y) if y * f < 1 else None
        hinge = 1.0 - y * f
        if hinge <= 0:
            return None
        exact = quotient(hinge, self.squared_norm(one, x))
        if self.rule == "pa":
            return Wish(min(self.cap, exact) * y)
        rho = min(self.alpha, hinge) / self.beta
        return Wish(min(self.rate / rho, exact) * y, rho)

    def add(self, one: Expansion, new: Entry, f: float, v: float) -> None:
        """Take the new entry in, inside the budget."""
        full = len(one.entries) == self.budget
        one.errors += 1
        if self.policy == "project":
            self.project(one, new, full)
        elif not full:
            one.entries.append(new)
        elif self.policy == "random":
            one.entries[min(int(v * self.budget), self.budget - 1)] = new
        elif self.policy in ("unbiased", "by size"):
            self.remove_unbiased(one, new, v)
        elif self.policy == "oldest":
            one.entries[one.oldest()] = new
        elif self.policy == "forgetron":
            self.forget(one, new)
        elif self.policy == "replace":
            self.replace(one, new, f)

    def remove_unbiased(self, one: Expansion, new: Entry, v: float) -> None:
        """Zhao et al.: place r goes with probability p_r; the others are divided by 1 - p_r."""
        B = len(one.entries)
        p = [1.0 / B] * B
        if self.policy == "by size":
            own = [float(one.kernel(entry.x, entry.x)) for entry in one.entries]
            sizes = [
                abs(e.coefficient) * math.sqrt(k) for e, k in zip(one.entries, own, strict=True)
            ]
            p = [max(0.0, 1.0 - (B - 1) * size / sum(sizes)) for size in sizes]
            p = [share / sum(p) for share in p]
        place, reached = 0, p[0]
        while reached <= v and place < B - 1:
            place += 1
            reached += p[place]
        for r, entry in enumerate(one.entries):
            if r != place:
                size = min(abs(entry.coefficient) / (1.0 - p[r]), self.largest)
                entry.coefficient = math.copysign(size, entry.coefficient)
        one.entries[place] = new

    def forget(self, one: Expansion, new: Entry) -> None:
        """Dekel et al.: the new one comes in, all shrink, the oldest goes; mu in between."""
        place = one.oldest()
        old = one.entries[place]
        one.entries.append(new)
        d, mu = abs(old.coefficient), old.y * one.value(old.x)
        phi = shrinking_factor(d, mu, one.damage, one.errors)
        one.shrink(phi)
        one.entries[place] = one.entries.pop()
        one.damage += (d * phi) ** 2 + 2.0 * d * phi * (1.0 - phi * mu)

    def replace(self, one: Expansion, new: Entry, f: float) -> None:
        """The place whose best exchange for the new one costs least, the first of equal ones.

        The best b leaves the same hinge loss at every place: only the norms decide.
        """
        x, y, step = new.x, new.y, new.coefficient
        k_tt = self.squared_norm(one, x)
        options = []
        for place, (old, k_rt) in enumerate(zip(one.entries, one.kernel_values(x), strict=True)):
            a, k_rr = old.coefficient, self.squared_norm(one, old.x)
            b = (a * k_rt / k_tt if k_tt > 0 else 0.0) + step
            moved = a**2 * k_rr + b**2 * k_tt - 2.0 * a * b * k_rt
            hinge = max(0.0, 1.0 - y * (f - a * k_rt + b * k_tt))
            options.append((0.5 * moved + self.cap * hinge, place, float(b)))
        _, place, new.coefficient = min(options)
        one.entries[place] = new

    def project(self, one: Expansion, new: Entry, full: bool) -> None:
        """The new one if it is far from the span of the stored ones, else its projection."""
        k_tt = float(one.kernel(new.x, new.x))
        shares, k = np.zeros(0), one.kernel_values(new.x)
        if one.entries:
            gram = np.array([one.kernel_values(entry.x) for entry in one.entries])
            # least squares, as a Gram matrix need not have an inverse in float64
            shares = np.linalg.lstsq(gram, k, rcond=None)[0]
        if not full and k_tt - k @ shares > self.threshold:
            one.entries.append(new)
            return
        for entry, share in zip(one.entries, shares, strict=True):
            entry.coefficient += new.coefficient * float(share)
