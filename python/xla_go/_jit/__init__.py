"""Steps that are traced until two calls have made the same program, and are replayed without their Python from then on."""

from xla_go._jit.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]
