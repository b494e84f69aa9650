"""What `torch_xla.utils.checkpoint` gives after `xla_go.compat.install()`: torch.utils.checkpoint."""

from torch.utils.checkpoint import CheckpointFunction, checkpoint

__all__ = ["CheckpointFunction", "checkpoint"]
