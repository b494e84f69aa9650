"""Trains a character-level GPT on English text that Python itself ships, and samples from it.

The text is the reference manual inside the standard library (pydoc_data.topics). Run it on any
device: `python char_gpt.py --device xla` or `--device cpu`.
"""

import argparse
import math
import time
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import trange


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        drop = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=drop)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class CharGPT(nn.Module):
    """A decoder over characters; the output layer shares the embedding's weights."""

    def __init__(self, vocabulary: int, context: int, width: int = 128, heads: int = 4, layers: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.context = context
        self.characters, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = 0.02 / math.sqrt(2 * layers) if "project" in name or "contract" in name else 0.02
                nn.init.normal_(parameter, std=scale)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.characters(text) + self.positions.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.characters.weight.t()


def corpus() -> tuple[torch.Tensor, str]:
    """The text as character numbers, and the characters in their order."""
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = "".join(sorted(set(text)))
    number = {c: i for i, c in enumerate(characters)}
    return torch.tensor([number[c] for c in text]), characters


@torch.no_grad()
def sample(model: CharGPT, characters: str, start: str, count: int, device: str, temperature: float = 0.8) -> str:
    """Continues start by count characters. The window keeps one shape, so one program serves all steps."""
    model.eval()
    text = [characters.index(c) for c in start]
    choose = torch.Generator().manual_seed(0)
    for _ in trange(count, desc="sampling", unit="char"):
        window = text[-model.context :]
        last = len(window) - 1
        padded = torch.tensor([window + [0] * (model.context - len(window))])
        logits = model(padded.to(device)).cpu()[0, last]
        text.append(int(torch.multinomial(F.softmax(logits / temperature, 0), 1, generator=choose)))
    return "".join(characters[i] for i in text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="xla")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--sample", type=int, default=200, help="characters to write at the end")
    arguments = parser.parse_args()
    if arguments.device.startswith("xla"):
        import xla_go

        sync = xla_go.sync
    else:
        def sync() -> None:
            pass

    torch.manual_seed(0)
    text, characters = corpus()
    print(f"{len(text):,} characters, {len(characters)} different ones")
    model = CharGPT(len(characters), arguments.context).to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pick = torch.Generator().manual_seed(1)
    progress = trange(arguments.steps, desc="training", unit="step")
    started = time.perf_counter()
    loss = torch.zeros(())
    for step in progress:
        starts = torch.randint(len(text) - arguments.context - 1, (arguments.batch_size,), generator=pick)
        batch = torch.stack([text[s : s + arguments.context + 1] for s in starts]).to(arguments.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        sync()
        if step % 20 == 0 or step == arguments.steps - 1:
            progress.set_postfix(loss=f"{loss.item():.3f}")
    print(f"last loss {loss.item():.3f} after {time.perf_counter() - started:.1f} s")
    if arguments.sample:
        print(sample(model, characters, "The ", arguments.sample, arguments.device))


if __name__ == "__main__":
    main()
