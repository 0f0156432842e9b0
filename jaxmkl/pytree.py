"""What a value is made of (goes away with the modules that still import it from here)."""

from jaxmkl._pytree import *  # noqa: F403
from jaxmkl._pytree import _REGISTERED as REGISTERED  # noqa: F401
