# SPDX-License-Identifier: Apache-2.0
"""Images that one core makes ready for a top-down network in a second, stance against what the Python
frameworks do: read, decode and warp with OpenCV, flip, half body, scale and rotate, normalise with PyTorch,
draw the targets with numpy. Interleaved rounds; the median of the ratios is printed.

    PYTHON tests/bench/loader.py BUILD_DIR DATA [ROUNDS]

PYTHON has torch and opencv-python-headless (a venv outside the tree); DATA is a folder with dataset.yaml,
annotations/train.json and images/ of COCO persons. Let nothing else compute meanwhile.
"""
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np
import torch

WIDTH, HEIGHT, SIGMA, STRIDE = 192, 256, 2.0, 4
PAIRS = [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 14), (15, 16)]
UPPER = list(range(11))
MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def placed(x, y, w, h):
    """Centre and size of the window with the input's aspect around a box, padded to 1.25."""
    aspect = WIDTH / HEIGHT
    if w > aspect * h:
        size = np.array([w, w / aspect])
    else:
        size = np.array([h * aspect, h])
    return np.array([x, y]), size * 1.25


def half_body(points):
    upper = random.random() < 0.5
    chosen = [p[:2] for i, p in enumerate(points) if p[2] > 0 and (i in UPPER) == upper]
    if len(chosen) < 2:
        return None
    chosen = np.array(chosen)
    low, high = chosen.min(0), chosen.max(0)
    centre = chosen.mean(0)
    return placed(centre[0], centre[1], *((high - low) * 1.5))


def matrix(centre, size, angle):
    """Three points of the window to three of the input, as the affine transform is usually found."""
    rad = math.radians(angle)
    up = np.array([0.5 * size[0] * math.sin(rad), -0.5 * size[0] * math.cos(rad)])
    middle, dst_up = np.array([WIDTH * 0.5, HEIGHT * 0.5]), np.array([0, -0.5 * WIDTH])

    def three(a, d):
        return np.float32([a, a + d, a + d + np.array([-d[1], d[0]])])

    return cv2.getAffineTransform(three(centre, up), three(middle, dst_up))


def targets(points, visible):
    w, h = WIDTH // STRIDE, HEIGHT // STRIDE
    maps, weights = np.zeros((len(points), h, w), np.float32), np.zeros((len(points), 1), np.float32)
    radius = SIGMA * 3
    side = np.arange(0, 2 * radius + 1, 1, np.float32)
    gauss = np.exp(-((side - radius) ** 2 + (side[:, None] - radius) ** 2) / (2 * SIGMA**2))
    for k, (p, v) in enumerate(zip(points, visible)):
        x, y = int(p[0] / STRIDE + 0.5), int(p[1] / STRIDE + 0.5)
        left, top, right, low = int(x - radius), int(y - radius), int(x + radius + 1), int(y + radius + 1)
        if v <= 0 or left >= w or top >= h or right < 0 or low < 0:
            continue
        weights[k] = 1
        x0, x1, y0, y1 = max(0, left), min(right, w), max(0, top), min(low, h)
        maps[k, y0:y1, x0:x1] = gauss[y0 - top : y1 - top, x0 - left : x1 - left]
    return maps, weights


def sample(path, box, keypoints):
    with open(path, "rb") as f:
        image = cv2.imdecode(np.frombuffer(f.read(), np.uint8), cv2.IMREAD_COLOR)
    cv2.cvtColor(image, cv2.COLOR_BGR2RGB, image)
    points = keypoints.copy()
    centre, size = placed(box[0] + box[2] * 0.5, box[1] + box[3] * 0.5, box[2], box[3])
    if random.random() < 0.5:
        image = np.ascontiguousarray(image[:, ::-1])
        points[:, 0] = image.shape[1] - 1 - points[:, 0]
        for a, b in PAIRS:
            points[[a, b]] = points[[b, a]]
        centre[0] = image.shape[1] - centre[0] - 1
    if (points[:, 2] > 0).sum() > 8 and random.random() < 0.3:
        half = half_body(points)
        if half is not None:
            centre, size = half
    size = size * np.clip(np.random.randn() * 0.5 + 1, 0.5, 1.5)
    angle = np.clip(np.random.randn() * 40, -80, 80) if random.random() < 0.6 else 0
    m = matrix(centre, size, angle)
    image = cv2.warpAffine(image, m, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR)
    moved = points[:, :2] @ m[:, :2].T + m[:, 2]
    tensor = torch.from_numpy(image).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
    tensor.sub_(MEAN).div_(STD)
    maps, weights = targets(moved, points[:, 2])
    return tensor, torch.from_numpy(maps), torch.from_numpy(weights)


def peer(data, seconds=3.0):
    with open(f"{data}/annotations/train.json") as f:
        coco = json.load(f)
    names = {i["id"]: i["file_name"] for i in coco["images"]}
    todo = [
        (f"{data}/images/{names[a['image_id']]}", a["bbox"], np.float32(a["keypoints"]).reshape(-1, 3))
        for a in coco["annotations"]
        if a["num_keypoints"] > 0 and not a.get("iscrowd", 0)
    ]
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        batch = [sample(*random.choice(todo)) for _ in range(16)]
        [torch.stack(column) for column in zip(*batch)]
        n += 16
    return n / (time.perf_counter() - start)


def own(build, data):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as recipe:
        recipe.write(f"""
model:
  task: top_down
  backbone: {{name: resnet, depth: 18}}
  head: {{name: heatmap, deconv: [256, 256, 256]}}
  loss: {{name: joints_mse, use_target_weight: true}}
data:
  dataset: coco
  root: {data}
  info: {data}/dataset.yaml
  train: {{annotations: annotations/train.json, images: images}}
  val: {{annotations: annotations/train.json, images: images, boxes: truth}}
  input_size: [{WIDTH}, {HEIGHT}]
  heatmap_size: [{WIDTH // STRIDE}, {HEIGHT // STRIDE}]
  sigma: {SIGMA}
  augment: {{flip: 0.5, half_body: 0.3, rotation: 40, rotation_prob: 0.6, scale: 0.5}}
train:
  optimizer: {{name: adam, lr: 5.0e-4}}
""")
        recipe.flush()
        out = subprocess.run(
            [f"{build}/stance", "bench", recipe.name, "--batch-size", "1", "--steps", "1", "--warmup", "1", "--json"],
            check=True, capture_output=True, text=True).stdout
    return json.loads(out)["loader_images_per_second"]


def main():
    build, data = sys.argv[1], os.path.abspath(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    folders = ["backbones", "heads", "losses", "scalers"] + [
        f"plugins/{d}" for d in ("devices", "optimizers", "schedules", "datasets", "tasks", "loggers")]
    os.environ["STANCE_PLUGIN_PATH"] = ":".join(f"{build}/{d}" for d in folders)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)
    ratios = []
    for _ in range(rounds):
        a, b = peer(data), own(build, data)
        ratios.append(b / a)
        print(f"  Python {a:.0f} images/s, stance {b:.0f} images/s: {b / a:.2f}x", flush=True)
    print(f"  median: {statistics.median(ratios):.2f}x (OpenCV {cv2.__version__}, PyTorch {torch.__version__})")


main()
