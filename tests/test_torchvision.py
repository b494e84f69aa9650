"""torchvision's models on device xla equal CPU torch: eval forward, and a step of training with every gradient and
buffer, in one program each, with no operator on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xla_go
from model_comparison import TOLERANCE, compare_forward, compare_training, pair

torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed for this torch")



def build(name: str, **options: object) -> nn.Module:
    """The model with random weights, none of which are so small that they would hide what lies before them."""
    model = torchvision.models.get_model(name, weights=None, num_classes=10, **options)
    for parameter, p in model.named_parameters():
        if parameter.endswith("layer_scale"):  # 1e-6 at first: convnext's blocks would not be seen in its output
            nn.init.constant_(p, 0.5)
        elif parameter == "heads.head.weight":  # zeros at first: vit's output and most of its gradients would be, too
            nn.init.normal_(p, std=0.05)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: build("resnet18"),
    "mobilenet_v3_small": lambda: build("mobilenet_v3_small"),
    "efficientnet_b0": lambda: build("efficientnet_b0"),
    "convnext_tiny": lambda: build("convnext_tiny"),
    "vit_b_16": lambda: build("vit_b_16", image_size=64),
    "swin_t": lambda: build("swin_t"),
}


def images(batch: int = 4, size: int = 64) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


def labels(batch: int = 4) -> torch.Tensor:
    return torch.randint(10, (batch,), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", MODELS)
def test_eval_forward_equals_cpu(name: str) -> None:
    cpu, xla = pair(MODELS[name])
    compare_forward(cpu, xla, lambda model, device: model(images().to(device)))


# Where an input of relu is rounded to the other side of zero, its gradient is another one: in float64 that does
# not happen. (The CPU's gradient of hardsigmoid has a factor that is rounded to float32, so it stays here.)
DTYPES = {"resnet18": torch.float64}


SLOW = ("mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS])
def test_training_step_equals_cpu(name: str) -> None:
    dtype = DTYPES.get(name, torch.float32)
    cpu, xla = pair(MODELS[name], dtype)
    given = images().to(dtype) if dtype is torch.float32 else images(size=32).to(dtype)

    def call(model: nn.Module, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(given.to(device))
        return y, F.cross_entropy(y, labels().to(device))

    compare_training(cpu, xla, call, 1e-9 if dtype is torch.float64 else TOLERANCE)


class DetectionHeads(nn.Module):
    """What has static shapes in a Faster R-CNN: feature pyramid, anchors, the heads of proposals and of boxes, decoded boxes.

    Its pooled regions are the whole images, for which regions go to which level depends on the data.
    """

    def __init__(self) -> None:
        super().__init__()
        detection = torchvision.models.detection
        self.pyramid = torchvision.ops.FeaturePyramidNetwork([8, 16], 12)
        self.anchors = detection.anchor_utils.AnchorGenerator(sizes=((16,), (32,)), aspect_ratios=((0.5, 1.0, 2.0),) * 2)
        self.proposals = detection.rpn.RPNHead(12, 3, conv_depth=2)
        self.convolutions = detection.faster_rcnn.FastRCNNConvFCHead((12, 7, 7), [12], [20], norm_layer=nn.BatchNorm2d)
        self.perceptron = detection.faster_rcnn.TwoMLPHead(12 * 7 * 7, 20)
        self.predictor = detection.faster_rcnn.FastRCNNPredictor(20, 5)
        self.coder = detection._utils.BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))

    def forward(self, images: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> list[torch.Tensor]:
        maps = self.pyramid({"low": low, "high": high})
        listed = torchvision.models.detection.image_list.ImageList(images, [tuple(images.shape[-2:])] * len(images))
        anchors = self.anchors(listed, list(maps.values()))
        objectness, deltas = self.proposals(list(maps.values()))
        deltas = torch.cat([d.unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2).flatten(1, 3) for d in deltas], dim=1)
        boxes = self.coder.decode(deltas.flatten(0, 1), anchors)
        regions = F.adaptive_avg_pool2d(maps["low"], 7)
        classes, offsets = self.predictor(self.perceptron(regions) + self.convolutions(regions))
        return [torch.cat([o.flatten(1) for o in objectness], dim=1), boxes.flatten(1), classes, offsets]


def test_detection_heads_equal_cpu() -> None:
    cpu, xla = pair(DetectionHeads, torch.float64)
    generator = torch.Generator().manual_seed(3)
    given = [torch.randn(2, channels, size, size, generator=generator).double() for channels, size in ((3, 64), (8, 16), (16, 8))]

    def call(model: nn.Module, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        objectness, boxes, classes, offsets = model(*(g.to(device) for g in given))
        targets = (objectness.detach() > 0).flip(1).to(objectness.dtype)
        truth = boxes.detach().unflatten(1, (-1, 4)).roll(1, 1) + 1
        loss = F.binary_cross_entropy_with_logits(objectness, targets) + F.cross_entropy(classes, torch.tensor([1, 4], device=device))
        loss = loss + F.smooth_l1_loss(offsets, offsets.detach().flip(0), beta=1 / 9)
        overlap = torchvision.ops.generalized_box_iou(boxes.unflatten(1, (-1, 4)).flatten(0, 1)[:50], truth[0, :50])
        loss = loss + (1 - overlap).mean()
        return torch.cat([objectness.flatten(), boxes.flatten(), classes.flatten(), offsets.flatten(), overlap.flatten()]), loss

    compare_forward(cpu, xla, lambda model, device: call(model, device)[0], 1e-9)
    compare_training(cpu, xla, call, 1e-9)


REGIONS = {
    "roi_align": (27, lambda x, boxes: torchvision.ops.roi_align(x, boxes, 3, sampling_ratio=2, aligned=True)),
    "roi_pool": (27, lambda x, boxes: torchvision.ops.roi_pool(x, boxes, 3)),
    "ps_roi_align": (27, lambda x, boxes: torchvision.ops.ps_roi_align(x, boxes, 3)),
    "ps_roi_pool": (27, lambda x, boxes: torchvision.ops.ps_roi_pool(x, boxes, 3)),
}


@pytest.mark.parametrize("name", REGIONS)
def test_operators_of_torchvision_run_on_the_cpu_and_are_counted(name: str) -> None:
    channels, pool = REGIONS[name]
    boxes = torch.tensor([[0.0, 1.0, 1.0, 9.0, 9.0], [1.0, 2.0, 3.0, 12.0, 14.0]])
    before = xla_go.metrics.counter_value(f"torchvision::{name}") or 0
    results = {}
    for device in ("cpu", "xla"):
        x = torch.randn(2, channels, 16, 16, generator=torch.Generator().manual_seed(4)).to(device).requires_grad_()
        y = pool(x, boxes.to(device))
        y.pow(2).sum().backward()
        assert y.device.type == x.grad.device.type == device
        results[device] = y.detach().cpu(), x.grad.cpu()
    torch.testing.assert_close(results["xla"], results["cpu"])
    assert xla_go.metrics.counter_value(f"torchvision::{name}") == before + 1


def test_faster_rcnn_detects_what_it_does_on_the_cpu() -> None:
    """Its sizes depend on the data, so parts of it run on the CPU; what it finds is the same, with the weights of both."""

    def detector() -> nn.Module:
        return torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=64, box_score_thresh=0.1, box_detections_per_img=10
        )

    cpu, xla = pair(detector)
    image = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        expected = cpu.eval()([image])[0]
        actual = xla.eval()([image.to("xla")])[0]
    assert expected["boxes"].shape == (10, 4)
    for name, value in expected.items():
        assert actual[name].device.type == "xla"
        torch.testing.assert_close(actual[name].cpu(), value, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
