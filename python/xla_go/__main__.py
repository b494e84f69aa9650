"""`python -m xla_go COMMAND`."""

from __future__ import annotations

import argparse
import sys

from xla_go import __version__, _bench, _device_list, _plugin_list, _program_cache, conform, doctor, explain


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m xla_go", description="PyTorch on any PJRT device.")
    parser.add_argument("--version", action="version", version=f"xla_go {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="say what is installed and found, and test it on the device; status 1 where something fails")
    cache = commands.add_parser("cache", help="the compiled programs that are kept on disk for other processes")
    cache.add_argument("action", choices=_program_cache.ACTIONS, help="; ".join(f"{name}: {text}" for name, text in _program_cache.ACTIONS.items()))
    cache.add_argument("--directory", default="", help="where they are; by default where this environment keeps them")
    conform.add_arguments(commands.add_parser("conform", help="test a PJRT plugin against the client contract; status 1 where a case fails"))
    commands.add_parser("devices", help="list the devices of the plugin in use; status 1 where there is none")
    commands.add_parser("plugins", help="list the plugins that are installed, and which one would be used; status 1 where none would")
    _bench.add_arguments(commands.add_parser("bench", help="measure this machine's device: calls, steps, transfers, compiles"))
    explain.add_arguments(commands.add_parser("explain", help="run a script and tell what its time went to: compiles with reasons, waits with lines"))
    arguments = parser.parse_args()
    if arguments.command == "cache":
        return _program_cache.main(arguments.action, arguments.directory)
    if arguments.command == "conform":
        return conform.main(arguments)
    if arguments.command == "devices":
        return _device_list.main()
    if arguments.command == "plugins":
        return _plugin_list.main()
    if arguments.command == "bench":
        return _bench.main(arguments)
    if arguments.command == "explain":
        return explain.main(arguments)
    return doctor.main()


if __name__ == "__main__":
    sys.exit(main())
