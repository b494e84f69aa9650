"""`python -m xla_go plugins`: which PJRT plugins there are, and which one would be used."""

from __future__ import annotations

import os

from xla_go import _plugins


def main() -> int:
    """Prints the plugins that were found, a star before the one that would be used; gives 0 where there is one, else 1. Loads none."""
    found = _plugins.search(os.environ)
    chosen: _plugins.Plugin | None = None
    problem = ""
    try:
        chosen = _plugins.choose(os.environ, found)
    except (ValueError, _plugins.PluginNotFoundError) as error:
        problem = str(error)
    for plugin in found.plugins:
        used = chosen is not None and (os.path.abspath(plugin.path), plugin.source) == (chosen.path, chosen.source)
        print(f"{'*' if used else ' '} {plugin.device_type or '(told by the plugin)':<8} {plugin.path}, from {plugin.source}")
    for note in found.notes:
        print(f"  note: {note}")
    if chosen is None:
        print(problem)
        return 1
    options = ", ".join(f"{name}={value}" for name, value in chosen.options.items())
    print(f"{len(found.plugins)} found; * is used" + (f", with {options}" if options else ""))
    return 0
