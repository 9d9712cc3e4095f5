"""The process that decodes media and runs the model's processors on them; started by ``pool.py``, isolated.

It loads the processors once and forks for each file (see child.py), so that a file meets limits on memory and time, a
fresh process, none of the server's or of other requests' memory, and no files but the libraries' (see sandbox.py).

In: a ``Job`` as an object; ``model`` alone only loads its processors. Out: ``{"tokens", "hash"}``, or ``{}``;
``{"refused": code, "reason"}``; ``{"memory": true}``; ``{"room": bytes}`` where the disk has not so many;
``{"late": true}``, ``{"interrupted": true}`` or ``{"ended": signal}`` of a fork; ``{"failed": traceback}`` for a fault
of ours.
"""

from __future__ import annotations

import os
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_NICE: Final = 10
"""Steps of the engine come first where both want a core."""
_REASON_CHARS: Final = 200
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Limits:
    """Those of ``MediaLimits`` that hold while decoding."""

    max_pixels: int
    max_video_s: float
    max_audio_s: float
    disk_reserve_bytes: int
    decode_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """One file."""

    path: str
    kind: Any
    """A MediaKind."""
    said: str | None
    """The audio format that the client names."""
    model: str
    """Folder of the model."""
    features: str
    """Where the encoder's input is to be written."""
    limits: Limits


def prepare(inputs: Any, job: Job) -> dict[str, Any]:
    """Decode a file, and write what the processors (an ``engine.multimodal.family.MediaInputs``) make of it.

    Raises:
        MediaFault: the file is refused.
        MemoryError: it needs more than there is.
    """
    from safetensors import SafetensorError

    from engine.multimodal.features import save_features
    from handlers.media.formats import HEAD_BYTES, taken_format

    path = Path(job.path)
    with path.open("rb") as file:
        format_name = taken_format(file.read(HEAD_BYTES), job.kind, job.said)
    prepared = _decoded(inputs, job, path, format_name)
    size = sum(tensor.nbytes for tensor in prepared.features.values())
    features = Path(job.features)
    disk = os.statvfs(features.parent)
    if disk.f_bavail * disk.f_frsize - job.limits.disk_reserve_bytes < size:
        return {"room": size}
    try:
        save_features(features, prepared.features)
    except SafetensorError:  # it tells no number of the system's; the disk is what can be at fault
        return {"room": size}
    return {"tokens": prepared.tokens}


def _decoded(inputs: Any, job: Job, path: Path, format_name: str) -> Any:
    from handlers.media.faults import invalid

    limits = job.limits
    clip: Any = None
    if job.kind == "image":
        from handlers.media.decode_image import decode_image

        picture = decode_image(path, format_name, limits.max_pixels)
    elif job.kind == "audio":
        from handlers.media.decode_audio import decode_audio

        samples = decode_audio(path, format_name, inputs.sample_rate, limits.max_audio_s)
    else:
        from handlers.media.decode_video import chosen_frames, survey

        clip = survey(path, format_name, limits.max_pixels, limits.max_video_s)
    try:
        if job.kind == "image":
            return inputs.image(picture)
        if job.kind == "audio":
            return inputs.audio(samples)
        indices = inputs.frame_indices(clip.frames, clip.frames_per_s)
        frames = chosen_frames(path, format_name, clip, indices, limits.max_pixels)
        return inputs.video(frames, indices, clip.frames, clip.frames_per_s)
    except ValueError as error:  # what the model's processor does not take
        raise invalid(f"is not taken by the model: {str(error)[:_REASON_CHARS]}") from None


def answer(inputs: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; a file that is at fault is an answer too."""
    from handlers.media.faults import MediaFault

    try:
        return prepare(inputs, Job(**{**request, "limits": Limits(**request["limits"])}))
    except MediaFault as fault:
        return {"refused": fault.code, "reason": fault.reason}
    except MemoryError:
        return {"memory": True}
    except Exception as error:
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):  # torch's
            return {"memory": True}
        return {"failed": traceback.format_exc(limit=-4)}


def hashed(given: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """An answer of a fork with the hash of what it wrote, by which others may be given the same: a fork that was taken
    over must not choose it."""
    from engine.multimodal.features import content_hash, load_features

    if "tokens" not in given:
        return given
    try:
        return {**given, "hash": content_hash(request["kind"], load_features(request["features"])).hex()}
    except Exception:
        return {"failed": traceback.format_exc(limit=-4)}


def warmed(inputs: Any) -> Any:
    """The processors, used once: what they load late is then there before the forks, which would load it each."""
    import numpy as np

    side, rate = 64, inputs.sample_rate
    pixels = np.zeros((side, side, 3), np.uint8)
    if "image" in inputs.kinds:
        from PIL import Image

        inputs.image(Image.fromarray(pixels))
    if "video" in inputs.kinds:
        indices = inputs.frame_indices(8, 8.0)
        inputs.video((pixels for _ in indices), indices, 8, 8.0)
    if "audio" in inputs.kinds:
        inputs.audio(np.zeros(rate, np.float32))
    return inputs


def main() -> None:
    """Serve requests from stdin until it closes. Argument: the memory limit in bytes, beyond what is taken by then."""
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

    import av
    import torch
    from PIL import Image

    from engine.multimodal.family import inputs_of
    from handlers.media import decode_audio, decode_image, decode_video  # noqa: F401 - before the forks
    from handlers.media.child import Children
    from handlers.media.sandbox import Sandbox
    from handlers.worker_process import serve

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    av.logging.set_level(None)
    Image.MAX_IMAGE_PIXELS = None  # the limit is ours, and is told as such
    loaded: dict[str, Any] = {}
    sandbox = Sandbox()

    def confined(request: dict[str, Any]) -> dict[str, Any]:
        sandbox.enter(request["path"], os.path.dirname(request["features"]))
        return answer(loaded[request["model"]], request)

    children = Children(confined)
    signal.signal(signal.SIGUSR1, lambda *_: children.interrupt())

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        model = request["model"]
        try:
            if model not in loaded:
                loaded[model] = warmed(inputs_of(Path(model)))
        except Exception:
            return {"failed": traceback.format_exc(limit=-4)}
        if "path" not in request:
            return {}
        given = hashed(children.ask(request, request["limits"]["decode_s"]), request)
        return {"interrupted": True} if children.was_interrupted() else given

    os.nice(_NICE)
    serve(reply, opens_files=True, writes_files=True, beyond_present=True)
