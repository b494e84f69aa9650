"""What `torch_xla._internal.tpu` gives after `xla_go.compat.install()`: what a Cloud TPU machine says of itself.

The facts come from the environment (TPU_SKIP_MDS_QUERY) or from the metadata server of a Cloud TPU machine.
"""

from __future__ import annotations

import glob
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from xla_go import errors
from xla_go.compat.utils.utils import getenv_as

_GOOGLE_PCI_VENDOR_ID = "0x1ae0"
# v2 and v3, v4, v5e, v6e, two of tests, 7x.
_TPU_PCI_DEVICE_IDS = ["0x0027", "0x005e", "0x0063", "0x006f", "0x0056", "0x0062", "0x0076"]
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
# Hosts along x, y and z of the kinds whose metadata do not say: 4 chips a host, 2 cores a chip.
_HOSTS_OF_CORES = {8: "1,1,1", 32: "2,2,1", 128: "4,4,1", 256: "4,8,1", 512: "8,8,1", 1024: "8,16,1", 2048: "16,16,1"}


class MeshShape(NamedTuple):
    """Sizes of a mesh along x, y, z."""

    x: int
    y: int
    z: int

    @classmethod
    def from_string(cls, mesh: str) -> MeshShape:
        """Of "2,2,1". ValueError for other than three numbers."""
        sizes = [int(size) for size in mesh.split(",")]
        if len(sizes) != 3:
            raise ValueError(f"MeshShape.from_string(): expected three sizes, got {mesh!r}")
        return cls(*sizes)

    @property
    def size(self) -> int:
        return self.x * self.y * self.z

    def __mul__(self, other: Any) -> MeshShape:  # type: ignore[override]
        return MeshShape(self.x * other[0], self.y * other[1], self.z * other[2])


def _get_metadata(key: str) -> str:
    request = urllib.request.Request(_METADATA + key, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def _from_environment() -> bool:
    return bool(os.environ.get("TPU_SKIP_MDS_QUERY"))


def get_tpu_env() -> dict[str, Any]:
    """ACCELERATOR_TYPE, TPU_PROCESS_BOUNDS, TPU_CHIPS_PER_PROCESS_BOUNDS and WORKER_ID of this machine, and what else it says."""
    if not _from_environment():
        # Lines of `NAME: 'value'`.
        pairs = re.findall(r"^\s*([A-Z0-9_]+)\s*:\s*['\"]?(.*?)['\"]?\s*$", _get_metadata("tpu-env"), re.MULTILINE)
        return dict(pairs)
    get = os.environ.get
    return {
        "ACCELERATOR_TYPE": get("TPU_ACCELERATOR_TYPE"),
        "TPU_PROCESS_BOUNDS": get("TPU_PROCESS_BOUNDS", get("TPU_HOST_BOUNDS")),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": get("TPU_CHIPS_PER_PROCESS_BOUNDS", get("TPU_CHIPS_PER_HOST_BOUNDS")),
        "WORKER_ID": get("CLOUD_TPU_TASK_ID", get("TPU_WORKER_ID")),
    }


def _accelerator() -> str:
    try:
        return str(get_tpu_env()["ACCELERATOR_TYPE"])
    except (urllib.error.URLError, KeyError) as error:
        raise errors.NotFoundError(f"tpu: expected a Cloud TPU machine, its metadata say nothing: {error}") from error


def version() -> int:
    """The TPU's generation, 4 for "v4-16". NotFoundError where this is no Cloud TPU machine."""
    accelerator = _accelerator()
    found = re.fullmatch(r"(?:v|tpu)(\d)[A-Za-z]{0,7}-\d+", accelerator)
    if found is None:
        raise errors.InvalidArgumentError(f"tpu.version(): expected a type like v4-16, got {accelerator!r}")
    return int(found[1])


def get_tpu_type() -> str:
    """The TPU's kind: "v6e" of "v6e-8"."""
    return _accelerator().partition("-")[0]


def process_bounds_size() -> int | None:
    """Number of processes over all hosts, as TPU_PROCESS_BOUNDS says."""
    bounds = os.environ.get("TPU_PROCESS_BOUNDS")
    return MeshShape.from_string(bounds).size if bounds else None


def num_available_chips() -> int:
    """Number of TPU chips on this host's PCI bus."""
    count = 0
    for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
        vendor = Path(path)
        if vendor.read_text().strip() == _GOOGLE_PCI_VENDOR_ID:
            count += vendor.with_name("device").read_text().strip() in _TPU_PCI_DEVICE_IDS
    return count


def num_logical_cores_per_chip() -> int:
    """Devices of a chip: 2 up to generation 3."""
    return 2 if version() <= 3 else 1


def num_available_devices() -> int:
    """Number of TPU devices on this host."""
    return num_available_chips() * num_logical_cores_per_chip()


def num_expected_global_devices() -> int:
    return num_available_devices() * num_tpu_workers()


def num_local_processes() -> int:
    """Number of processes for this host: one a chip, unless TPU_PROCESS_BOUNDS has fewer."""
    chips, processes = num_available_chips(), process_bounds_size()
    return min(chips, processes) if processes else chips


def task_id() -> int | None:
    """This process's number among all, where CLOUD_TPU_TASK_ID says it."""
    return getenv_as("CLOUD_TPU_TASK_ID", int)


def worker_id() -> int:
    """This host's number."""
    return int(get_tpu_env()["WORKER_ID"])


def get_worker_ips() -> list[str]:
    """Addresses of the hosts, in order; ["localhost"] of a single one."""
    if _from_environment():
        hosts = os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",")
    else:
        hosts = [worker.split(":")[2] for worker in _get_metadata("worker-network-endpoints").split(",")]
    return hosts if len(hosts) > 1 else ["localhost"]


def num_tpu_workers() -> int:
    return len(get_worker_ips())


def _default(**variables: str) -> None:
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def configure_one_chip_topology() -> None:
    """Sets the environment for one process with one chip, where it is not set. Before the first device use."""
    _default(TPU_VISIBLE_CHIPS="0", TPU_CHIPS_PER_PROCESS_BOUNDS="1,1,1", TPU_PROCESS_BOUNDS="1,1,1")


def configure_topology(local_rank: int, local_world_size: int, base_port: int = 8476) -> None:
    """Sets the environment for one process a chip, where it is not set. Before the first device use.

    The processes of a host listen at the ports from base_port on.
    """
    said, generation = get_tpu_env(), version()
    if generation >= 4:
        hosts = MeshShape.from_string(said["TPU_PROCESS_BOUNDS"])
        chips = MeshShape.from_string(said["TPU_CHIPS_PER_PROCESS_BOUNDS"])
    else:
        hosts = MeshShape.from_string(_HOSTS_OF_CORES[int(said["ACCELERATOR_TYPE"].rpartition("-")[2])])
        chips = MeshShape(2, 2, 1)
    bounds = ",".join(map(str, hosts * chips)) + (",2" if generation == 7 else "")
    ports = range(base_port, base_port + local_world_size)
    _default(
        TPU_CHIPS_PER_PROCESS_BOUNDS="1,1,1",
        TPU_PROCESS_BOUNDS=bounds,
        CLOUD_TPU_TASK_ID=str(int(said["WORKER_ID"]) * local_world_size + local_rank),
        TPU_PROCESS_ADDRESSES=",".join(f"{host}:{port}" for host in get_worker_ips() for port in ports),
        TPU_VISIBLE_CHIPS=str(local_rank),
        TPU_PROCESS_PORT=str(ports[local_rank]),
    )


