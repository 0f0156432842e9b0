"""The published setting of online classification of many tasks.

Only the paper's supplement, with the proofs, is available; it states no numbers.
"""

from jaxmkl.recipes.multitask import multitask
from jaxmkl.recipes.settings.setting import Constant, Setting

PAPER = "Kernel sampling for online multi-task classification (supplement)"
SILENT = "the supplement states none; ours"
DICTIONARY = (
    "Calandriello, Lazaric and Valko (2017), Algorithm 2; the supplement states none; ours"
)

SETTINGS: dict[str, Setting] = {
    "multitask": Setting(
        PAPER,
        lambda T, D: multitask(
            loss="hinge", components="both", update_on="margin", covariance="always"
        ),
        (
            Constant("loss", "hinge", "equation (3), hinge, and equation (5)"),
            Constant("components", "both: μ⁰ + μᵏ and Σ⁰ + Σᵏ", "proofs of Lemma 3 and Theorem 1"),
            Constant(
                "covariance",
                "always: Σᵏ and Σ⁰ shrink in every round, whether a mean moves or not",
                "equations (2) and (4); Σ_T⁻¹ = I + 1/λ Σ_t φ φ' in the proof of Theorem 1",
            ),
            Constant(
                "update_on",
                "margin: means move where the hinge loss is positive",
                "proofs of Theorems 1 and 2, whose gradient is that of the hinge: Q Z = 1 if and "
                'only if the loss is positive. Lemma 3 moves them on mistakes alone: "mistake"',
            ),
            Constant(
                "query",
                "every label is known",
                "Theorem 1. Theorem 2 asks where Θ <= 0, and else with probability h / (h + Θ): "
                "query=Uncertainty(h, ε); the supplement states no h",
            ),
            Constant("noise", "λ = 1", f"{SILENT}; the proof of Theorem 1 needs λ >= 1"),
            Constant(
                "inertia",
                "ε = 1",
                f"{SILENT}; the ε of Theorem 1 depends on what is not known in advance",
            ),
            Constant(
                "kernel",
                "exp(-|x - z|²/2)",
                f"{SILENT}; the proof of Theorem 1 needs k(x, x) <= 1",
            ),
            Constant("num_tasks", "None: one task; set K by dataclasses.replace", SILENT),
            Constant("size", "100 points", SILENT),
            Constant("ridge", "1", DICTIONARY),
            Constant("density", "1", DICTIONARY),
            Constant("accuracy", "0.5", DICTIONARY),
            Constant("tolerance", "1e-4 in float32, 1e-8 in float64", SILENT),
            Constant("growth", "extend: a new coordinate has mean 0 and variance 1", SILENT),
        ),
    ),
}
"""The setting by the name of its recipe."""
