"""What `import torch_xla.experimental` gives after `xla_go.compat.install()`: the modules below it."""

# A package without a place of its own: the modules below it are those that install() put in place.
__path__: list[str] = []
