"""A trainer as they are published for torch_xla: nothing in it knows of xla_go.

    python -m xla_go.compat torch_xla_mnist.py --epochs 2

Each device has a replica of a small convolutional net, which reads its part of the images. They are made here (a bright
stroke for each class, and noise), so that nothing is downloaded.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr

CLASSES = 10


class Strokes(torch.utils.data.Dataset):
    """Images of 1x28x28: class k has a bright row and a bright column, which k chooses."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(CLASSES, (count,), generator=generator)
        self.images = 0.5 * torch.randn(count, 1, 28, 28, generator=generator)
        for image, label in zip(self.images, self.labels.tolist(), strict=True):
            image[0, 2 * label + 4] += 2.0
            image[0, :, 22 - 2 * label] += 2.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class MNIST(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=5)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=5)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc1 = nn.Linear(256, 50)
        self.fc2 = nn.Linear(50, CLASSES)

    def forward(self, x):
        x = self.bn1(F.relu(F.max_pool2d(self.conv1(x), 2)))
        x = self.bn2(F.relu(F.max_pool2d(self.conv2(x), 2)))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def train_mnist(flags):
    torch.manual_seed(1)
    device = torch_xla.device()
    train_dataset, test_dataset = Strokes(flags.samples, seed=1), Strokes(flags.samples // 4, seed=2)
    train_sampler = None
    if xr.world_size() > 1:
        train_sampler = torch.utils.data.distributed.DistributedSampler(
            train_dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True
        )
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=flags.batch_size, sampler=train_sampler, shuffle=train_sampler is None, drop_last=True
    )
    test_loader = torch.utils.data.DataLoader(test_dataset, batch_size=flags.batch_size, shuffle=False, drop_last=True)
    # Scale the learning rate by the number of replicas.
    lr = flags.lr * xr.world_size()

    model = MNIST().to(device)
    optimizer = optim.SGD(model.parameters(), lr=lr, momentum=flags.momentum)
    loss_fn = nn.NLLLoss()

    def train_loop_fn(loader, epoch):
        tracker = xm.RateTracker()
        model.train()
        for step, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = loss_fn(model(data), target)
            loss.backward()
            xm.optimizer_step(optimizer)
            tracker.add(flags.batch_size)
            if step % flags.log_steps == 0:
                xm.add_step_closure(_train_update, args=(device, epoch, step, loss, tracker))

    def test_loop_fn(loader):
        total_samples, correct = 0, torch.zeros((), device=device)
        model.eval()
        for data, target in loader:
            with torch.no_grad():
                predicted = model(data).max(1, keepdim=True)[1]
            correct += predicted.eq(target.view_as(predicted)).sum()
            total_samples += data.size()[0]
        accuracy = 100.0 * correct.item() / total_samples
        return xm.mesh_reduce("test_accuracy", accuracy, lambda values: sum(values) / len(values))

    train_device_loader = pl.MpDeviceLoader(train_loader, device)
    test_device_loader = pl.MpDeviceLoader(test_loader, device)
    accuracy, max_accuracy = 0.0, 0.0
    for epoch in range(1, flags.epochs + 1):
        if train_sampler is not None:
            train_sampler.set_epoch(epoch)
        xm.master_print(f"Epoch {epoch} train begin")
        train_loop_fn(train_device_loader, epoch)
        accuracy = test_loop_fn(test_device_loader)
        xm.master_print(f"Epoch {epoch} test end, Accuracy={accuracy:.2f}")
        max_accuracy = max(accuracy, max_accuracy)
        if flags.metrics_debug:
            xm.master_print(met.metrics_report())
    xm.master_print(f"Max Accuracy: {max_accuracy:.2f}%")
    if flags.save:
        xm.save(model.state_dict(), flags.save)
    return max_accuracy


def _train_update(device, epoch, step, loss, tracker):
    if xm.is_master_ordinal():
        print(f"| {device} | epoch {epoch} | step {step} | loss {loss.item():.5f} | rate {tracker.rate():.2f} |", flush=True)


def _mp_fn(index, flags):
    torch.set_default_dtype(torch.float32)
    accuracy = train_mnist(flags)
    if accuracy < flags.target_accuracy:
        raise SystemExit(f"replica {index}: accuracy {accuracy} is below the target of {flags.target_accuracy}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--target-accuracy", type=float, default=98.0)
    parser.add_argument("--metrics-debug", action="store_true")
    parser.add_argument("--save")
    torch_xla.launch(_mp_fn, args=(parser.parse_args(),))
