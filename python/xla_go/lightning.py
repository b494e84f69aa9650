"""Device xla for Lightning: after `import xla_go.lightning`, `Trainer(accelerator="xla_go")` trains on it.

It serves the package `lightning` and the older `pytorch_lightning`: those that are imported already, else the one that is
installed. Import it after Lightning where both are. One device is used; several are for `xla_go.runtime.use_spmd`, with which
one xla device stands for all.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

import torch

from xla_go import _device_module

__all__ = ["NAME", "register"]

NAME = "xla_go"
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _accelerator_class(package: str) -> type:
    """The accelerator, below the class of that package."""
    accelerators = importlib.import_module(f"{package}.accelerators")
    plugins = importlib.import_module(f"{package}.plugins")
    strategies = importlib.import_module(f"{package}.strategies")
    exceptions = importlib.import_module(f"{package}.utilities.exceptions")
    base: Any = accelerators.Accelerator

    class XlaGoAccelerator(base):
        """One xla device."""

        _device: torch.device | None = None

        def setup_device(self, device: torch.device) -> None:
            """Nothing: which device it is shows in `setup`. Lightning gives "cpu" here where it has chosen the strategy."""

        def setup(self, trainer: Any) -> None:
            """Puts the strategy and mixed precision on the device. MisconfigurationException for a strategy of several processes."""
            strategy = trainer.strategy
            if strategy.root_device.type != "xla":
                if type(strategy) is not strategies.SingleDeviceStrategy:
                    raise exceptions.MisconfigurationException(
                        f"accelerator={NAME!r}: expected no strategy, or SingleDeviceStrategy, got {type(strategy).__name__}; for several devices see xla_go.spmd"
                    )
                strategy._root_device = trainer._accelerator_connector._parallel_devices[0]
            _device_module.set_device(strategy.root_device)
            precision = strategy.precision_plugin
            if isinstance(precision, plugins.MixedPrecision) and precision.device != "xla":
                precision.device = "xla"
                if precision.scaler is not None:
                    precision.scaler = torch.amp.GradScaler("xla")

        def teardown(self) -> None:
            """Nothing: the device goes with the process."""

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Bytes in use and their peak, where they are known. Waits for nothing."""
            try:
                return _device_module.memory_stats(device)
            except NotImplementedError:
                return {}

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            """The device's index in a list, from a count of 1, a text or a list."""
            if isinstance(devices, str):
                parts = [int(part) for part in devices.split(",") if part.strip()]
                devices = parts if "," in devices else parts[0]
            found = list(range(devices)) if isinstance(devices, int) and devices > 0 else devices
            if not isinstance(found, (list, tuple)) or len(found) != 1:
                raise exceptions.MisconfigurationException(
                    f"accelerator={NAME!r}: expected devices=1, or the number of one device in a list, got {devices!r}; for several devices see xla_go.spmd"
                )
            return list(found)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("xla", index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            """Whether a plugin is found. Does not start the runtime."""
            return _device_module.is_available()

        @staticmethod
        def name() -> str:
            return NAME

        @classmethod
        def register_accelerators(cls, accelerator_registry: Any) -> None:
            accelerator_registry.register(NAME, cls, description="one device of a PJRT plugin, by xla_go")

    return XlaGoAccelerator


def register() -> list[str]:
    """Registers the accelerator with Lightning; the packages that it is registered with. Idempotent.

    ImportError where Lightning is not installed.
    """
    packages = [package for package in _PACKAGES if package in sys.modules]
    if not packages:
        packages = [package for package in _PACKAGES if importlib.util.find_spec(package.partition(".")[0])][:1]
    if not packages:
        raise ImportError("xla_go.lightning: expected Lightning, which is not installed; pip install lightning")
    for package in packages:
        registry = importlib.import_module(f"{package}.accelerators").AcceleratorRegistry
        if NAME not in registry:
            _accelerator_class(package).register_accelerators(registry)  # type: ignore[attr-defined]
    return packages


register()
