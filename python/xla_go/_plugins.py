"""Finding the PJRT plugin of the device that is asked for, and options to create its client with.

Nothing here loads a plugin or imports the package that carries it: plugins are found by the files that their
distributions installed.
"""

from __future__ import annotations

import glob
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xla_go import _cuda, errors

OptionValue = str | bool | int | float | list[int]


@dataclass(frozen=True)
class Plugin:
    """A plugin to load. `device_type` is upper case, "" where only the plugin knows it."""

    device_type: str
    path: str
    source: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass
class Search:
    """What was found and what was looked at on the way, for messages and for the doctor."""

    plugins: list[Plugin] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, device_type: str) -> Plugin | None:
        return next((plugin for plugin in self.plugins if plugin.device_type == device_type), None)

    def device_types(self) -> list[str]:
        return list(dict.fromkeys(plugin.device_type for plugin in self.plugins if plugin.device_type))


class PluginNotFoundError(errors.NotFoundError):
    """No usable plugin. The text lists what was tried; `tried` has it as a list."""

    def __init__(self, message: str, search: Search) -> None:
        lines = "".join(f"\n  - {line}" for line in search.tried) or "\n  (nothing)"
        super().__init__(f"{message}\nTried:{lines}")
        self.tried = list(search.tried)


def _has_nvidia_gpu() -> bool:
    return os.path.exists("/proc/driver/nvidia/version") or bool(glob.glob("/dev/nvidia[0-9]*"))


def _has_tpu() -> bool:
    return bool(glob.glob("/dev/accel[0-9]*")) or (bool(glob.glob("/dev/vfio/[0-9]*")) and "TPU_ACCELERATOR_TYPE" in os.environ)


@dataclass(frozen=True)
class Platform:
    """A kind of device whose plugin wheels are known: their names, and whether such a device is here."""

    device_type: str
    distributions: tuple[str, ...]
    install: str
    present: Callable[[], bool]
    path_variables: tuple[str, ...] = ()


# Best first: this order decides where PJRT_DEVICE is not set.
PLATFORMS = (
    Platform("TPU", (r"libtpu",), "libtpu", _has_tpu, ("TPU_LIBRARY_PATH", "PTXLA_TPU_LIBRARY_PATH")),
    Platform("CUDA", (r"jax-cuda(\d+)-pjrt", r"xla-cuda(\d+)-pjrt"), "jax-cuda13-pjrt", _has_nvidia_gpu),
    Platform("ROCM", (r"jax-rocm(\d+)-pjrt",), "jax-rocm7-pjrt", lambda: os.path.exists("/dev/kfd")),
    Platform("XPU", (r"jax-oneapi-pjrt",), "jax-oneapi-pjrt", lambda: bool(glob.glob("/dev/dri/renderD*")), ("XPU_LIBRARY_PATH",)),
    Platform("NEURON", (r"libneuronxla",), "libneuronxla", lambda: bool(glob.glob("/dev/neuron[0-9]*")), ("NEURON_LIBRARY_PATH",)),
    Platform(
        "CPU",
        (r"fastatomstruct-xla-cpu", r"lammps-jax-pjrt-cpu", r"xla-cpu-pjrt"),
        "fastatomstruct-xla-cpu",
        lambda: True,
    ),
)  # fmt: skip
ALIASES = {"GPU": "CUDA", "ONEAPI": "XPU"}
# Variables that hold a plugin's path.
EXPLICIT_PATHS = ("XLA_GO_PLUGIN_PATH", "PJRT_LIBRARY_PATH")
ENTRY_POINT_GROUPS = ("xla_plugins", "jax_plugins", "torch_xla.plugins")


def _exports_pjrt(path: Path) -> bool:
    """Whether a library names the one symbol that every plugin has."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
            tail = b""
            while chunk := file.read(1 << 22):
                if b"GetPjrtApi\0" in tail + chunk:
                    return True
                tail = chunk[-16:]
    except OSError:
        return False
    return False


def _libraries(distribution: importlib.metadata.Distribution, module: str = "") -> list[Path]:
    """The plugin libraries that a distribution installed, below `module` where that is given."""
    under = module.replace(".", "/")
    found = []
    for file in distribution.files or ():
        name = file.name
        if file.suffix == ".so" and str(file).startswith(under) and re.search(r"pjrt|plugin|libtpu", name):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                found.append(path)
    # Most carry one library and need not be read; of several, those that are plugins count.
    return found if len(found) < 2 else [path for path in found if _exports_pjrt(path)]


def _guess_device_type(name: str) -> str:
    lowered = name.lower()
    for word, device_type in (("tpu", "TPU"), ("cuda", "CUDA"), ("rocm", "ROCM"), ("oneapi", "XPU"), ("xpu", "XPU"), ("neuron", "NEURON"), ("cpu", "CPU")):
        if word in lowered:
            return device_type
    return re.sub(r"^xla[-_]|[-_](pjrt|plugin)$", "", lowered).upper()


def _explicit(environment: Mapping[str, str], search: Search) -> Iterator[Plugin]:
    wanted = _canonical(environment.get("PJRT_DEVICE", ""))
    for variable in EXPLICIT_PATHS:
        if path := environment.get(variable):
            search.tried.append(f"{variable}={path}")
            yield Plugin("" if wanted == "LIBRARY" else wanted, path, variable)
    for pair in filter(None, environment.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",")):
        name, _, path = pair.partition(":")
        search.tried.append(f"PJRT_NAMES_AND_LIBRARY_PATHS: {name} at {path}")
        yield Plugin(name.upper(), path, "PJRT_NAMES_AND_LIBRARY_PATHS")
    for platform in PLATFORMS:
        for variable in platform.path_variables:
            if path := environment.get(variable):
                search.tried.append(f"{variable}={path}")
                yield Plugin(platform.device_type, path, variable)


def _from_entry_points(search: Search) -> Iterator[Plugin]:
    for group in ENTRY_POINT_GROUPS:
        for entry in importlib.metadata.entry_points(group=group):
            distribution = entry.dist
            libraries = _libraries(distribution, entry.module.partition(":")[0]) if distribution is not None else []
            where = f"entry point {entry.name} of group {group}"
            if not libraries:
                search.tried.append(f"{where}: no plugin library among the files of its distribution")
                continue
            search.tried.append(f"{where}: {libraries[0]}")
            device_type = entry.name.upper() if group == "torch_xla.plugins" else _guess_device_type(entry.name)
            yield Plugin(device_type, str(libraries[0]), where)


def _from_known_wheels(search: Search) -> Iterator[Plugin]:
    installed: dict[str, importlib.metadata.Distribution] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            installed.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution)
    for platform in PLATFORMS:
        for pattern in platform.distributions:
            shown = pattern.replace(r"(\d+)", "N")
            matching = [(name, match) for name in installed if (match := re.fullmatch(pattern, name))]
            # Of several generations of one wheel the newest: jax-cuda13-pjrt before jax-cuda12-pjrt.
            matching.sort(key=lambda item: -int(item[1].group(1)) if item[1].groups() else 0)
            if not matching:
                search.tried.append(f"wheel {shown} for {platform.device_type}: not installed")
            for name, _ in matching:
                distribution = installed[name]
                libraries = _libraries(distribution)
                if not libraries:
                    search.tried.append(f"wheel {name} {distribution.version}: no plugin library among its files")
                    continue
                search.tried.append(f"wheel {name} {distribution.version}: {libraries[0]}")
                yield Plugin(platform.device_type, str(libraries[0]), f"wheel {name} {distribution.version}")


def _distance(plugin: Plugin, torch_generation: int) -> tuple[bool, int]:
    """Sorts CUDA plugins: first those of the CUDA version whose libraries torch has in the process, then the newest."""
    if plugin.device_type != "CUDA":
        return (False, 0)
    generation = _cuda.plugin_generation(plugin.source) or _cuda.plugin_generation(plugin.path)
    return (torch_generation not in (0, generation), -generation)


def search(environment: Mapping[str, str]) -> Search:
    """Looks everywhere; explicit paths come first, then entry points, then known wheels."""
    result = Search()
    result.plugins.extend(_explicit(environment, result))
    torch_generation = _cuda.torch_generation()
    result.plugins.extend(sorted((*_from_entry_points(result), *_from_known_wheels(result)), key=lambda plugin: _distance(plugin, torch_generation)))
    for platform in PLATFORMS:
        if platform.device_type not in ("CPU", "XPU") and result.of(platform.device_type) is None and platform.present():
            result.notes.append(f"a {platform.device_type} device is present and no plugin for it: pip install {platform.install}")
    return result


def _canonical(device_type: str) -> str:
    upper = device_type.upper()
    return ALIASES.get(upper, upper)


def choose(environment: Mapping[str, str], found: Search) -> Plugin:
    """The plugin that PJRT_DEVICE names; where it is unset, that of the best device present.

    Raises PluginNotFoundError, which says what was tried.
    """
    asked = environment.get("PJRT_DEVICE", "")
    explicit = next((plugin for plugin in found.plugins if plugin.source in EXPLICIT_PATHS), None)
    if explicit is not None and (explicit.source == "XLA_GO_PLUGIN_PATH" or asked.upper() == "LIBRARY" or not asked):
        plugin = explicit
    elif asked:
        plugin = _asked_for(asked, found)
    else:
        plugin = _best_present(found)
    if not os.path.isfile(plugin.path):
        raise PluginNotFoundError(f"expected a PJRT plugin at {plugin.path!r} (from {plugin.source}), got no such file", found)
    return Plugin(plugin.device_type, os.path.abspath(plugin.path), plugin.source, create_options(plugin.device_type or _type_in_name(plugin.path), environment))


def _asked_for(asked: str, found: Search) -> Plugin:
    if asked.upper() == "LIBRARY":
        raise PluginNotFoundError("PJRT_DEVICE=LIBRARY needs PJRT_LIBRARY_PATH, the path of a PJRT plugin; it is not set", found)
    device_type = _canonical(asked)
    plugin = found.of(device_type)
    if plugin is not None:
        return plugin
    platform = next((platform for platform in PLATFORMS if platform.device_type == device_type), None)
    if platform is not None:
        raise PluginNotFoundError(f"PJRT_DEVICE={asked}: no plugin for {device_type} is installed: pip install {platform.install}", found)
    known = sorted({platform.device_type for platform in PLATFORMS} | set(found.device_types()))
    raise PluginNotFoundError(f"Unknown PJRT_DEVICE: {asked!r}: expected one of {', '.join(known)}, or the path of a plugin in XLA_GO_PLUGIN_PATH", found)


def _best_present(found: Search) -> Plugin:
    for platform in PLATFORMS:
        plugin = found.of(platform.device_type)
        if plugin is not None and platform.device_type != "CPU" and platform.present():
            return plugin
    others = {platform.device_type for platform in PLATFORMS}
    # A plugin of a kind unknown here was installed for its device; the CPU one comes with every install.
    for plugin in found.plugins:
        if plugin.device_type not in others:
            return plugin
    plugin = found.of("CPU")
    if plugin is None:
        wheel = next(platform.install for platform in PLATFORMS if platform.device_type == "CPU")
        raise PluginNotFoundError(f"no PJRT plugin is installed: pip install {wheel} (CPU), or set XLA_GO_PLUGIN_PATH to a plugin's path", found)
    return plugin


def _type_in_name(path: str) -> str:
    """CPU for a library that is called so: CPU plugins have to be told how many devices to make."""
    return "CPU" if re.search(r"(?<![a-z])cpu(?![a-z])", os.path.basename(path).lower()) else ""


def create_options(device_type: str, environment: Mapping[str, str]) -> dict[str, OptionValue]:
    """Options for PJRT_Client_Create. A plugin refuses names it does not know, so one of an unknown type gets only what was asked for."""
    options: dict[str, OptionValue] = {}
    if device_type == "CPU":
        options["cpu_device_count"] = 1  # left alone, CPU plugins differ in how many devices they make
    if device_type in ("", "CPU"):
        count = environment.get("CPU_NUM_DEVICES", "")
        flag = re.search(r"--xla_force_host_platform_device_count=(\d+)", environment.get("XLA_FLAGS", ""))
        if not count and flag:
            count = flag.group(1)
        if count:
            if not re.fullmatch(r"0*[1-9][0-9]{0,4}", count):  # each has threads and memory of its own: more would never start
                raise ValueError(f"CPU_NUM_DEVICES: expected a number of devices from 1 to 99999, got {count!r}")
            options["cpu_device_count"] = int(count)
    return options

