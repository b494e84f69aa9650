"""Fetches the C++ headers of torch's releases, out of their wheels.

    python packaging/torch_headers.py DIRECTORY [RELEASE ...]

Without releases: the last one of each minor release that xla_go supports and the package index has for this CPython.
DIRECTORY/RELEASE then has what an adapter is built from (`_adapter.py --torch`): `include/` and `version.py`, about
80 MB; and `METADATA`, which says for which CPythons the release is. A release that is there already is not fetched again.
A wheel is up to 900 MB, of which one at a time is on disk.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tqdm import tqdm

OLDEST = (2, 9)


def releases() -> list[str]:
    """The last release of each minor one, oldest first. BLOCKING: asks the package index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", "torch"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    listed = re.search(r"^Available versions: (.+)$", output, re.MULTILINE)
    if listed is None:
        raise SystemExit(f"torch_headers: expected a line of available versions from pip, got:\n{output}")
    last: dict[tuple[int, int], str] = {}
    for version in listed[1].split(", "):  # newest first
        numbers = re.match(r"(\d+)\.(\d+)\.\d+$", version)
        if numbers and (minor := (int(numbers[1]), int(numbers[2]))) >= OLDEST:
            last.setdefault(minor, version)
    return [last[minor] for minor in sorted(last)]


def fetch(release: str, directory: Path) -> None:
    """Puts the release's headers into directory/release, whole or not at all. BLOCKING: downloads the wheel."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{release}-", dir=directory) as scratch:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps", "--no-cache-dir"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", scratch, f"torch=={release}"], check=True)
        (wheel,) = Path(scratch).glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("torch/include/") or name == "torch/version.py"]
            archive.extractall(scratch, names)
            (metadata,) = (name for name in archive.namelist() if re.fullmatch(r"torch-[^/]+\.dist-info/METADATA", name))
            (Path(scratch) / "torch" / "METADATA").write_bytes(archive.read(metadata))
        (Path(scratch) / "torch").rename(directory / release)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("releases", nargs="*")
    arguments = parser.parse_args()
    with tqdm(arguments.releases or releases(), unit="release") as bar:
        for release in bar:
            bar.set_postfix_str(release)
            if not (arguments.directory / release).is_dir():
                fetch(release, arguments.directory)


if __name__ == "__main__":
    main()
