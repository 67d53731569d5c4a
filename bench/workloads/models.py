"""The architectures of the workloads, small: SqueezeNet, ResNet with bottlenecks, a transformer encoder, Jasper, an RNN with attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Fire(nn.Module):
    """Squeeze to few channels, expand by 1x1 and 3x3."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.narrow = nn.Conv2d(squeezed, expanded, 1)
        self.wide = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return F.relu(torch.cat([self.narrow(x), self.wide(x)], 1))


def squeezenet(classes: int, width: int = 16) -> nn.Module:
    """Of fire modules, with dropout before the last layer."""
    w = width
    return nn.Sequential(
        nn.Conv2d(3, 4 * w, 3, stride=2, padding=1), nn.ReLU(), Fire(4 * w, w, 4 * w), Fire(8 * w, w, 4 * w), nn.MaxPool2d(2),
        Fire(8 * w, 2 * w, 8 * w), Fire(16 * w, 2 * w, 8 * w), nn.MaxPool2d(2), Fire(16 * w, 3 * w, 12 * w), Fire(24 * w, 4 * w, 16 * w),
        nn.Dropout(0.5), nn.Conv2d(32 * w, classes, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with batch norm, beside an identity or a projection."""

    def __init__(self, channels: int, middle: int, stride: int = 1) -> None:
        super().__init__()
        out = 4 * middle
        self.path = nn.Sequential(
            nn.Conv2d(channels, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
            nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
            nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        same = stride == 1 and channels == out
        self.beside: nn.Module = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.path(x) + self.beside(x))


def resnet(classes: int, middle: int = 24, depths: tuple[int, ...] = (2, 3, 5, 2)) -> nn.Module:
    """Of bottlenecks in four stages."""
    layers: list[nn.Module] = [nn.Conv2d(3, middle, 3, padding=1, bias=False), nn.BatchNorm2d(middle), nn.ReLU()]
    channels = middle
    for stage, depth in enumerate(depths):
        for place in range(depth):
            layers.append(Bottleneck(channels, middle << stage, 2 if stage and not place else 1))
            channels = 4 * (middle << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Encoder(nn.Module):
    """Tokens and positions through transformer layers."""

    def __init__(self, vocabulary: int, width: int, depth: int, longest: int, *, causal: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        mask = torch.full((longest, longest), float("-inf")).triu(1) if causal else torch.zeros(longest, longest)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places.weight[:length]
        for layer in self.layers:
            x = layer(x, src_mask=self.mask[:length, :length])
        normed: Tensor = self.norm(x)
        return normed


class Classifier(nn.Module):
    """An encoder of which only the last layer is trained, and a head: fine-tuning."""

    def __init__(self, vocabulary: int, width: int, depth: int, longest: int, classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(vocabulary, width, depth, longest)
        self.head = nn.Linear(width, classes)
        self.encoder.requires_grad_(False)
        self.encoder.layers[-1].requires_grad_(True)

    def forward(self, tokens: Tensor) -> Tensor:
        answer: Tensor = self.head(self.encoder(tokens).mean(1))
        return answer


def jasper(features: int, width: int, blocks: int, letters: int) -> nn.Module:
    """Convolutions over time with batch norm and dropout."""
    layers: list[nn.Module] = [nn.Conv1d(features, width, 11, stride=2, padding=5), nn.BatchNorm1d(width), nn.ReLU()]
    for _ in range(blocks):
        layers += [nn.Conv1d(width, width, 11, padding=5), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Conv1d(width, letters, 1))


class Translator(nn.Module):
    """An LSTM that reads, an LSTM that writes and attends to what was read."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        self.read = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)
        self.write = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)
        self.out = nn.Linear(2 * width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, state = self.read(self.source(source))
        written, _ = self.write(self.target(target), state)
        attended = torch.softmax(written @ read.transpose(1, 2) / read.shape[-1] ** 0.5, -1) @ read
        answer: Tensor = self.out(torch.cat([written, attended], -1))
        return answer
