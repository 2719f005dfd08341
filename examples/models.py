"""The models of the examples and benches, written out: torchvision is not to be had for every torch.

`alexnet` and `resnet50` have torchvision's layers and names, so that state dicts go both ways; `Transformer` is a small decoder."""

from typing import List, Optional

import torch
from torch import nn


def alexnet(classes: int = 1000, dropout: float = 0.5) -> nn.Module:
    """AlexNet (the version with one tower): 61.1 M parameters with 1000 classes, most of them in three Linear layers."""

    def conv(inner: int, outer: int, side: int, **more: int) -> List[nn.Module]:
        return [nn.Conv2d(inner, outer, side, **more), nn.ReLU(inplace=True)]

    pool = lambda: nn.MaxPool2d(3, stride=2)  # noqa: E731
    features = nn.Sequential(
        *conv(3, 64, 11, stride=4, padding=2), pool(), *conv(64, 192, 5, padding=2), pool(),
        *conv(192, 384, 3, padding=1), *conv(384, 256, 3, padding=1), *conv(256, 256, 3, padding=1), pool(),
    )  # fmt: skip
    classifier = nn.Sequential(
        nn.Dropout(dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
        nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, classes),
    )  # fmt: skip
    return _AlexNet(features, classifier)


class _AlexNet(nn.Module):
    def __init__(self, features: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.features, self.avgpool, self.classifier = features, nn.AdaptiveAvgPool2d((6, 6)), classifier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class _Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions beside a shortcut; the last has four times the channels."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        shortcut = stride != 1 or inner != outer
        self.downsample: Optional[nn.Module] = None
        if shortcut:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class _ResNet(nn.Module):
    def __init__(self, blocks: List[int], classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        inner = 64
        for k, count in enumerate(blocks):
            width, layer = 64 << k, []
            for i in range(count):
                layer.append(_Bottleneck(inner, width, 2 if k and not i else 1))
                inner = 4 * width
            setattr(self, f"layer{k + 1}", nn.Sequential(*layer))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(inner, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet50(classes: int = 1000) -> nn.Module:
    """ResNet-50: 25.6 M parameters in 161 tensors."""
    model = _ResNet([3, 4, 6, 3], classes)
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return model


class _Attention(nn.Module):
    """Causal self-attention of `heads` heads; with keys and values of earlier tokens kept, for generating. What it computes follows from the
    width of its layers, so that layers that were cut by heads (tensor parallel) work as they are."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out, self.head = nn.Linear(width, width, bias=False), width // heads
        self.kept: Optional[List[torch.Tensor]] = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.query, self.key, self.value))
        if self.kept is not None:
            self.kept = [torch.cat([old, new], 2) for old, new in zip(self.kept, (k, v))] if self.kept else [k, v]
            k, v = self.kept
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        return self.out(y.transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), _Attention(width, heads)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A decoder: token numbers in, logits of the next token out."""

    def __init__(self, words: int = 1000, width: int = 256, layers: int = 4, heads: int = 8, length: int = 256) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor, first: int = 0) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(first, first + tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def keep(self, on: bool) -> None:
        """Keeps keys and values of earlier tokens from now on, or forgets them."""
        for layer in self.layers:
            layer.attention.kept = [] if on else None
