"""The code that the guide for torch_xla's users shows runs as it is."""

from __future__ import annotations

import re
from pathlib import Path

from support import Child


def test_code_runs(child: Child, root: Path) -> None:
    text = (root / "docs" / "migration.md").read_text(encoding="utf-8")
    installed, layers, scanned, again = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # The first one changes what torch_xla is, so it comes last in the process.
    shown = child("\n".join([layers, scanned, again, installed])).stdout.splitlines()
    assert shown[:3] == ["1 torch.Size([8, 8])", "15.0 [1.0, 3.0, 6.0, 10.0, 15.0]", "True"], shown
    assert shown[3].endswith("tensor([2., 2.], device='xla:0')"), shown
