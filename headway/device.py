"""Where to compute, by name."""

import torch

from headway.errors import ConfigError, HeadwayError


def choose_device(name: str = "auto") -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f'"{name}" is not a device. Choose auto, cpu, cuda or cuda:0, cuda:1 …')
    if device.type == "cuda" and not torch.cuda.is_available():
        raise HeadwayError(f'the device "{name}" was asked for, but PyTorch sees no GPU here. Use --device cpu.')
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HeadwayError(f'there is no device "{name}": PyTorch sees {torch.cuda.device_count()} of them, from 0 on.')
    return device
