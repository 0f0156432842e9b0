"""OKS-SIL, OKL-GD, OKS and Proj-KA as Zhang and Liao run them.

They count a mistake if y f < 0, so a prediction of 0 is right (section 6); scores here count it as
wrong.
"""

from jaxmkl._types import Number
from jaxmkl.learners import Aligned, HypothesisSketch, OwnKernels
from jaxmkl.mkl import MKL
from jaxmkl.optimizers import InverseTime
from jaxmkl.recipes import kernel_selection
from jaxmkl.recipes.settings.setting import Constant, setting

_PAPER = (
    "Xiao Zhang and Shizhong Liao (2020), Hypothesis sketching for online kernel selection in "
)
_PAPER += "continuous kernel space"
_STEP_SIZES = {"step_size": tuple(10.0**i for i in range(-5, 1))}

_X_Y = Constant("X, y", "as they are, in 20 random orders", "section 6; scaling is not stated")
_LOSS = Constant("loss", "hinge", "section 4; section 6, footnote 3")
_STEP_SIZE = Constant(
    "step_size",
    "η, one of 10^-5, 10^-4, ..., 1; here 0.1 unless it is given",
    "section 6; by what it is tuned, and the values found, are not stated",
)
_BUDGET = Constant("budget", "B = 150 for T < 10^4, else 200", "section 6")
_DICTIONARY = Constant("kernels", "N = 25 Gaussians, σ = 2^(-(i+1)/2), |i| <= 12", "section 6")
_CONTINUUM = (
    Constant("space", "Gaussians, σ in Ω = [2^-6.5, 2^5.5]", "section 6"),
    Constant("start", "σ = 2^(-(i+1)/2), i uniform on -12, ..., -6", "section 6"),
    Constant("optimizer", "gradient steps ρ_t = 1/t, t the round", "(4); section 6"),
)


def _budget(num_examples: int) -> int:
    return 150 if num_examples < 10_000 else 200


def _oks_sil(num_examples: int, num_inputs: int, step_size: Number = 0.1) -> HypothesisSketch:
    return kernel_selection.oks_sil(
        optimizer=InverseTime(1.0),
        budget=_budget(num_examples),
        step_size=step_size,
        loss="hinge",
        threshold=0.9,
        num_sampled=3,
        ties="first",
        gradients="prediction",
    )


def _okl_gd(num_examples: int, num_inputs: int, step_size: Number = 0.1) -> OwnKernels:
    return kernel_selection.okl_gd(
        budget=2000, optimizer=InverseTime(1.0), step_size=step_size, loss="hinge"
    )


def _oks(num_examples: int, num_inputs: int, step_size: Number = 0.1) -> MKL:
    return kernel_selection.oks(
        step_size=step_size, smoothing=0.2, num_rounds=num_examples, capacity=num_examples
    )


def _proj_ka(num_examples: int, num_inputs: int) -> Aligned:
    return kernel_selection.proj_ka(
        budget=_budget(num_examples), num_aligned=min(num_examples, 10_000), two_passes=True
    )


SETTINGS = {
    "oks_sil": setting(
        _PAPER,
        _oks_sil,
        *_CONTINUUM,
        Constant("coordinate", "γ = 1/(2 σ²), moved inside Ω", "section 4"),
        _BUDGET,
        Constant("threshold", "ν = 0.9", "section 6"),
        Constant("num_sampled", "s = 3, drawn without replacement", "sections 3, 6"),
        Constant("ties", "the first of several smallest |w|", "not stated"),
        Constant(
            "gradients",
            "-y where y f(x) < 1, of weights and kernel",
            "Algorithm 1, lines 6 and 19; the text derives at f^b and f^w (section 3, (4))",
        ),
        _LOSS,
        _STEP_SIZE,
        _X_Y,
        tuned=_STEP_SIZES,
    ),
    "okl_gd": setting(
        _PAPER,
        _okl_gd,
        *_CONTINUUM,
        Constant("coordinate", "σ, of the newest centre alone", "Chen et al. (2016)"),
        Constant("budget", "2000 centres", "section 6, footnote 3"),
        Constant("eviction", "the oldest centre goes", "not stated"),
        _LOSS,
        _STEP_SIZE,
        _X_Y,
        tuned=_STEP_SIZES,
    ),
    "oks": setting(
        _PAPER,
        _oks,
        _DICTIONARY,
        Constant("smoothing", "δ = 0.2", "section 6"),
        Constant("aggregate.rate", "η = (2 (1 - δ) ln N / (N T))^(1/2)", "section 6"),
        Constant(
            "aggregate",
            "kernel i is drawn by p_i = (1 - δ) w_i / Σ w + δ/N, and alone predicts and "
            "learns; where it errs, w_i <- w_i exp(-η/p_i); its step is not divided by p_i",
            "not stated; Yang et al. (2012)",
        ),
        Constant("capacity", "every support vector is kept", "section 1: linear in T"),
        Constant("a score of 0", "the class +1", "not stated; Yang et al. (2012)"),
        Constant("loss", "hinge", "not stated of OKS; as of the others, section 6"),
        _STEP_SIZE,
        _X_Y,
        tuned=_STEP_SIZES,
    ),
    "proj_ka": setting(
        _PAPER,
        _proj_ka,
        _DICTIONARY,
        Constant("num_aligned", "m = min(T, 10^4) examples", "section 6"),
        Constant("two_passes", "the width is chosen, then all T are run", "section 6"),
        Constant("alignment", "not centred", "section 6: Kandola et al. (2002)"),
        Constant("budget", "B = 150 for T < 10^4, else 200", "not stated of it; of OKS-SIL"),
        Constant(
            "eviction",
            "a mistake is added, or beyond B projected",
            "Orabona et al. (2008); the U of section 6 is no constant of the Projectron",
        ),
        _X_Y,
    ),
}
