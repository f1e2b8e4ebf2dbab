"""Models that are served by their name: language models and networks whose counts are kept here."""

from __future__ import annotations

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.demand import Job
from ridgeline.predict.language import WEIGHTS, decode, language_models, weights_of
from ridgeline.predict.networks import BYTES, network, tables

DEFAULT_WEIGHTS = "fp16"
DEFAULT_PRECISION = "int8"
DEFAULT_CONTEXT = 1024


def known_models() -> list[str]:
    """Names that need no file."""
    return [*language_models(), *tables()]


def named_job(
    name: str, precision: str | None, context: int | None, share: float = 1.0
) -> Job | None:
    """The job of a model that is known by its name, or None.

    Of a language model it is one token, with weights stored in `precision` (fp16 by default) after
    `context` tokens; of a network one sample in `precision` (int8 by default).
    """
    key = name.lower()
    if key in language_models():
        model, weights = language_models()[key], weights_of(precision or DEFAULT_WEIGHTS)
        before = context if context is not None else DEFAULT_CONTEXT
        return Job(key, lambda batch: decode(model, weights, batch, before), share, before)
    if key in tables():
        chosen = check_precision(precision or DEFAULT_PRECISION)
        tokens = context
        if "encoder_layers" in tables()[key] and tokens is None:
            raise RidgelineError(
                f"{key} needs the length of its texts", where="choose", fix="Give --context 128"
            )
        return Job(key, lambda batch: network(key, chosen, batch, tokens), share)
    return None


def check_precision(name: str) -> str:
    """A format that networks compute in. Raises RidgelineError with the near ones."""
    if name not in BYTES:
        fix = did_you_mean(name, BYTES)
        if name in WEIGHTS:
            fix = f"{name} stores a language model's weights. For other networks: " + ", ".join(
                BYTES
            )
        raise RidgelineError(f"there is no precision '{name}'", where="--precision", fix=fix)
    return name


def unknown_model(name: str) -> RidgelineError:
    """What to say of a name that is neither known nor a file."""
    hint = did_you_mean(name.lower(), known_models())
    return RidgelineError(
        f"there is no model '{name}'",
        where="choose",
        fix=f"A file must end in .onnx. {hint}",
    )
