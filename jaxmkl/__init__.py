"""Online and active multiple kernel learning in JAX."""
