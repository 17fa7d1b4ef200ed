"""Devices: choose a torch device by name, and count CPU cores."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import ConfigError, HeadwayError

if TYPE_CHECKING:
    import torch


def available_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_cpu_only(name: str) -> bool:
    """Whether this name can only mean the CPU, as far as can be seen without importing torch."""
    if name != "auto" or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return name in ("auto", "cpu")
    return os.name == "posix" and not any(
        Path("/dev", node).exists() for node in ("nvidiactl", "nvidia0", "dxg", "kfd")
    )


def choose_device(name: str = "auto") -> "torch.device":
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f'"{name}" is not a device. Choose auto, cpu, cuda or cuda:0, cuda:1 …')
    if device.type == "cuda" and not torch.cuda.is_available():
        raise HeadwayError(f'there is no device "{name}": PyTorch sees no GPU. Use --device cpu.')
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HeadwayError(f'there is no device "{name}": PyTorch sees {torch.cuda.device_count()}, numbered from 0.')
    return device
