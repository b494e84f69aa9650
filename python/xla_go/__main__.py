"""`python -m xla_go doctor`."""

from __future__ import annotations

import argparse
import sys

from xla_go import __version__, doctor


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m xla_go", description="PyTorch on any PJRT device.")
    parser.add_argument("--version", action="version", version=f"xla_go {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="say what is installed and found, and test it on the device; status 1 where something fails")
    parser.parse_args()
    return doctor.main()


if __name__ == "__main__":
    sys.exit(main())
