# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of the comparison: one training step of HRNet or ResNet with the heatmap head.

Networks are written here with torch.nn alone, after the papers, so that nothing but PyTorch is needed:
eager, channels_last, fused Adam. Prints one JSON object: median and best step in ms, peak memory in bytes.

usage: torch_step.py hrnet_w32|resnet50|... fp32|bf16 BATCH [--steps N] [--warmup N]"""
import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn


def conv_bn(i, o, k, s=1):
    return [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]


class Basic(nn.Module):
    expansion = 1

    def __init__(self, i, c, stride=1):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(i, c, 3, stride), nn.ReLU(True), *conv_bn(c, c, 3))
        self.skip = nn.Sequential(*conv_bn(i, c, 1, stride)) if stride != 1 or i != c else nn.Identity()

    def forward(self, x):
        return torch.relu_(self.body(x) + self.skip(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, i, c, stride=1):
        super().__init__()
        o = 4 * c
        self.body = nn.Sequential(*conv_bn(i, c, 1), nn.ReLU(True), *conv_bn(c, c, 3, stride), nn.ReLU(True),
                                  *conv_bn(c, o, 1))
        self.skip = nn.Sequential(*conv_bn(i, o, 1, stride)) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return torch.relu_(self.body(x) + self.skip(x))


class Module(nn.Module):
    """One HRNet module: four blocks a branch, then every output sums all branches."""

    def __init__(self, width, branches, outputs):
        super().__init__()
        ch = [width << i for i in range(branches)]
        self.branch = nn.ModuleList(nn.Sequential(*[Basic(c, c) for _ in range(4)]) for c in ch)
        self.fuse = nn.ModuleList()
        for i in range(outputs):
            row = nn.ModuleList()
            for j in range(branches):
                if j == i:
                    row.append(nn.Identity())
                elif j > i:
                    row.append(nn.Sequential(*conv_bn(ch[j], ch[i], 1), nn.Upsample(scale_factor=2 ** (j - i))))
                else:
                    steps = []
                    for k in range(i - j):
                        last = k == i - j - 1
                        steps += conv_bn(ch[j], ch[i] if last else ch[j], 3, 2) + ([] if last else [nn.ReLU(True)])
                    row.append(nn.Sequential(*steps))
            self.fuse.append(row)

    def forward(self, x):
        x = [b(v) for b, v in zip(self.branch, x)]
        out = []
        for row in self.fuse:
            y = row[0](x[0])
            for j in range(1, len(x)):
                y = y + row[j](x[j])
            out.append(torch.relu_(y))
        return out


class HRNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, 64, 3, 2), nn.ReLU(True), *conv_bn(64, 64, 3, 2), nn.ReLU(True),
                                  Bottleneck(64, 64), *[Bottleneck(256, 64) for _ in range(3)])
        self.first = nn.ModuleList([nn.Sequential(*conv_bn(256, width, 3), nn.ReLU(True)),
                                    nn.Sequential(*conv_bn(256, 2 * width, 3, 2), nn.ReLU(True))])
        self.down = nn.ModuleList(nn.Sequential(*conv_bn(width << s, width << (s + 1), 3, 2), nn.ReLU(True)) for s in (1, 2))
        self.stage = nn.ModuleList(nn.Sequential(*[Module(width, b, 1 if b == 4 and m == n - 1 else b) for m in range(n)])
                                   for b, n in ((2, 1), (3, 4), (4, 3)))
        self.head = nn.Conv2d(width, 17, 1)

    def forward(self, x):
        x = self.stem(x)
        x = [f(x) for f in self.first]
        for i, stage in enumerate(self.stage):
            if i > 0:
                x = x + [self.down[i - 1](x[-1])]
            x = stage(x)
        return self.head(x[0])


class ResNet(nn.Module):
    def __init__(self, depth):
        super().__init__()
        block, n = {18: (Basic, (2, 2, 2, 2)), 34: (Basic, (3, 4, 6, 3)), 50: (Bottleneck, (3, 4, 6, 3)),
                    101: (Bottleneck, (3, 4, 23, 3)), 152: (Bottleneck, (3, 8, 36, 3))}[depth]
        layers = [*conv_bn(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        i = 64
        for s in range(4):
            for k in range(n[s]):
                layers.append(block(i, 64 << s, 2 if s > 0 and k == 0 else 1))
                i = (64 << s) * block.expansion
        for _ in range(3):
            layers += [nn.ConvTranspose2d(i, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(True)]
            i = 256
        self.net = nn.Sequential(*layers, nn.Conv2d(i, 17, 1))

    def forward(self, x):
        return self.net(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("net")
    ap.add_argument("precision", choices=["fp32", "bf16", "fp16"])
    ap.add_argument("batch", type=int)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--warmup", type=int, default=2)
    a = ap.parse_args()
    torch.manual_seed(0)
    net = HRNet(int(a.net[7:])) if a.net.startswith("hrnet_w") else ResNet(int(a.net[6:]))
    net = net.train().to(memory_format=torch.channels_last)
    x = torch.randn(a.batch, 3, 256, 192).to(memory_format=torch.channels_last)
    t, w = torch.rand(a.batch, 17, 64, 48), torch.ones(a.batch, 17, 1, 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[a.precision]
    scaler = torch.amp.GradScaler("cpu", enabled=a.precision == "fp16")
    ms = []
    for i in range(-a.warmup, a.steps):
        start = time.monotonic()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            y = net(x)
        loss = ((y.float() - t) * w).square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if i >= 0:
            ms.append(1e3 * (time.monotonic() - start))
    print(json.dumps({"median_ms": statistics.median(ms), "best_ms": min(ms), "step_ms": ms,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "parameters": sum(p.numel() for p in net.parameters()), "torch": torch.__version__}))


main()
