"""Models by their name on the Hugging Face hub, through `huggingface_hub`: its cache, endpoint, token and progress bars
are those of its own settings (HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE …).

    download_model("Helsinki-NLP/opus-mt-fr-en", revision)       the files that an import needs
    download_model("org/name/model-q8_0.gguf", revision)         one file of a repository
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*(/[\w./-]+\.gguf)?")
TEXT_FILES = ["*.json", "*.txt", "*.model", "*.spm", "*.jinja", "README.md"]
WEIGHTS = ["model.safetensors", "model-*-of-*.safetensors", "model.bin"]  # model.bin: CTranslate2's, not a pickle
PICKLES = ["pytorch_model.bin", "pytorch_model-*-of-*.bin"]


class UnknownModelError(HeadwayError):
    """The hub has no model of this name."""


class HubUnreachableError(HeadwayError):
    """A model is not in the cache, and there is no network to download it."""


def is_hub_name(source: str) -> bool:
    """Whether a source that is not on the disk may be a name: org/name, or org/name/file.gguf."""
    return HUB_NAME.fullmatch(source) is not None and ".." not in source


def download_model(name: str, revision: str = "", allow_pickle: bool = False) -> Path:
    """The folder (or, for a .gguf, the file) with what an import needs, downloaded unless it is in the cache."""
    hub = _import_hub()
    owner, repository, *inside = name.split("/", 2)
    settings: dict[str, Any] = {"repo_id": f"{owner}/{repository}", "revision": revision or None}
    with explain_failures(settings["repo_id"], revision):
        if inside:
            return Path(hub.hf_hub_download(filename=inside[0], **settings))
        folder = Path(hub.snapshot_download(allow_patterns=TEXT_FILES + WEIGHTS, **settings))
        if any(path.suffix == ".safetensors" or path.name == "model.bin" for path in folder.iterdir()):
            return folder
        if not allow_pickle:
            raise HeadwayError(
                f"{name} has no weights in safetensors. Many such models have them in a pickle, pytorch_model.bin, "
                "which can hold programs. Look for a revision with safetensors (--revision refs/pr/1 …), or allow the "
                "pickle: --allow-pickle reads nothing but its tensors."
            )
        return Path(hub.snapshot_download(allow_patterns=TEXT_FILES + PICKLES, **settings))


def _import_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise HeadwayError(
            "models are downloaded by the package huggingface_hub. Install it: pip install headway[convert], or "
            "download the files yourself and give their directory."
        ) from None
    return huggingface_hub


@contextmanager
def explain_failures(name: str, revision: str) -> Iterator[None]:
    """Errors of the library in our words: what went wrong, and what to do."""
    import huggingface_hub.errors as errors

    try:
        yield
    except errors.GatedRepoError:
        raise HeadwayError(
            f"{name} is gated: its owners want you to agree to their terms on its page. Do so, then log in: hf auth "
            "login (or set HF_TOKEN)."
        ) from None
    except errors.RevisionNotFoundError:
        raise HeadwayError(f"{name} has no revision {revision or 'main'}. Check --revision on its page.") from None
    except errors.RepositoryNotFoundError:
        raise UnknownModelError(
            f"there is no directory {name}, and no model of this name on the hub. Check the spelling; for a private "
            "model log in: hf auth login (or set HF_TOKEN)."
        ) from None
    except errors.RemoteEntryNotFoundError:
        raise HeadwayError(f"{name} has no such file on the hub. Look at the list of its files.") from None
    except errors.LocalEntryNotFoundError:
        raise HubUnreachableError(
            f"{name} is not in the cache, and the hub cannot be reached. Check the network (and HF_ENDPOINT, "
            "HF_HUB_OFFLINE), or copy the model's directory here and give its path."
        ) from None
    except HeadwayError:
        raise
    except Exception as error:  # the library passes on the errors of its HTTP client
        reason = str(error).strip().splitlines()
        raise HeadwayError(
            f"{name} cannot be downloaded: {reason[0] if reason else type(error).__name__}. Try again later."
        ) from None
