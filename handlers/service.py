"""What all handlers share: the settings, the engine's front, the model's defaults and limits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any

from engine.front import Front
from engine.text.parsers.hermes import HERMES
from engine.types import EngineError, ModelInfo
from generated.models import ChatCompletionRequest
from generated.rules import Deployment
from handlers.admission import Admission
from handlers.answer_forms import AnswerForms, check_parsers
from handlers.api_keys import KeyBook
from handlers.defaults import ModelDefaults
from handlers.ending import Ending
from handlers.errors import Problem, from_engine, refused
from handlers.health_probe import HealthProbe
from handlers.live_requests import LiveRequests
from handlers.log_settings import level_number, set_level
from handlers.media.collect import collect
from handlers.media.intake import Intake
from handlers.media.parts import MediaPart
from handlers.prompt import PromptMaker
from handlers.reloading import Watch, follow
from handlers.running import Timeouts
from handlers.schema_pool import SchemaPool
from handlers.settings import Limits, Settings
from handlers.strict_json import JsonLimits
from handlers.template_pool import TemplatePool
from handlers.tls_watch import TlsInUse
from handlers.traffic import Traffic


class Service:
    """One running server. Belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        front: Front,
        defaults: ModelDefaults | None = None,
        *,
        keys: KeyBook | None = None,
        tls: TlsInUse | None = None,
        media: Intake | str | None = None,
    ) -> None:
        """Args:
            settings: of the deployment.
            front: the engine's.
            defaults: the model's.
            keys: read already, with the variables of the process; else those of the settings' file.
            tls: of the listeners, where any has it.
            media: reads images, video and audio; or a sentence on why a model that takes them gets none.

        Raises:
            ValueError: a parser's name that no family has.
            KeysError: keys that cannot be used.
        """
        check_parsers(settings)
        self.front = front
        self.defaults = defaults or ModelDefaults()
        self.created = int(time.time())
        """When the server started, in seconds since 1970."""
        self.live = LiveRequests()
        """The inference requests that are being answered."""
        self.traffic = Traffic(settings.average_window_requests, lambda: self.front.counts)
        """What has been asked and answered."""
        self.admission = Admission(settings.links)
        """Which inference requests are worked on, and which wait."""
        self.ending = Ending(front, self.admission.close)
        """The server's end, whoever begins it."""
        self.probe = HealthProbe(front, settings.health)
        self.keys = keys or KeyBook(settings.access)
        """Who may ask."""
        self.tls = tls or TlsInUse({})
        """What the listeners that have TLS serve with."""
        self._media = media
        self._settings = settings
        self._deployment = settings.deployment()
        self._json_limits = settings.json_limits()
        self._timeouts = Timeouts(settings.token_timeout, settings.e2e_timeout)
        self._pool = TemplatePool(settings)
        self.schemas = SchemaPool(settings)
        """Makes grammars of the schemas that answers are held to."""
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """What runs beside the requests, for as long as the application does; it is cancelled then."""
        if isinstance(media, Intake):
            self.background.append(media.start)
        self.watches: list[Callable[[], Watch]] = []
        """What follows files, made when the application has started."""
        self._prompts: PromptMaker | None = None
        self._forms: AnswerForms | None = None
        self._numbers = itertools.count(1)

    @property
    def settings(self) -> Settings:
        """The settings in force; read them at each use, since some reload."""
        return self._settings

    def reload(self, settings: Settings) -> None:
        """From now on these are in force; they differ in the form of answers and in the timeouts only."""
        self._settings = settings
        self._deployment = settings.deployment()
        self._timeouts = Timeouts(settings.token_timeout, settings.e2e_timeout)

    @property
    def deployment(self) -> Deployment:
        """The profile that the contract's rules ask about."""
        return self._deployment

    @property
    def json_limits(self) -> JsonLimits:
        """How large the structure of a body may be."""
        return self._json_limits

    @property
    def timeouts(self) -> Timeouts:
        """How long an answer may take."""
        return self._timeouts

    @property
    def max_request_bytes(self) -> int:
        """Largest request body, in bytes."""
        return self._settings.max_request_bytes

    @property
    def max_headers(self) -> int:
        """Headers of a request at most."""
        return self._settings.links.max_headers

    @property
    def max_header_bytes(self) -> int:
        """All of them together at most."""
        return self._settings.links.max_header_bytes

    @property
    def waiting(self) -> int:
        """Requests that wait: to be worked on, or in the engine for room."""
        return self.admission.waiting + self.front.waiting

    @property
    def openai_form(self) -> bool:
        """Whether answers and errors have OpenAI's shape."""
        return self._deployment.openai_form

    @property
    def forces_tool_calls(self) -> bool:
        """Whether the engine writes a call that it is told to write (``Request.forced_text``)."""
        return bool(getattr(self.front, "forces_tool_calls", False))

    @property
    def prompts(self) -> PromptMaker:
        """Renders and tokenises; made at first use, when the front has its tokenizer."""
        if self._prompts is None:
            family = self.forms.tools or HERMES
            tokens = () if self.front.info is None else self.front.info.media_tokens
            self._prompts = PromptMaker(self.front.tokenizer, self._settings, self._pool, family, tokens)
        return self._prompts

    @property
    def forms(self) -> AnswerForms:
        """How answers are taken apart; made at first use, when the front has its tokenizer."""
        if self._forms is None:
            self._forms = AnswerForms(self.front.tokenizer, self._settings)
        return self._forms

    @property
    def model_names(self) -> list[str]:
        """The names that a request may use, the deployed model's first."""
        return [self._settings.model_name, *(adapter.name for adapter in self.front.adapters.ready)]

    def adapter_of(self, name: str) -> str | None:
        """The adapter that a request's model means; None for the deployed model itself."""
        return None if name == self._settings.model_name else name

    async def follow_files(self) -> None:
        """Follow what may change while the server runs, until cancelled."""
        watches = [make() for make in self.watches]
        watches += [self.keys] if self.keys.watched else []
        watches += [self.tls] if self.tls.planes else []
        if watches:
            await follow(watches)

    def set_log_level(self, name: str) -> None:
        """Log from this level on, here and in the engine's processes. Raises ValueError for a name that is none."""
        set_level(name)
        self.front.set_log_level(level_number(name))

    def check_model(self, name: str) -> None:
        """Refuse a model that is not deployed.

        Raises:
            Problem: 422 unknown_model.
        """
        if name not in self.model_names:
            shown = name if len(name) <= 100 else name[:100] + "..."
            message = f"model {shown!r} is not deployed here; GET /v1/models lists the names to use"
            raise refused("unknown_model", message, "model")

    def media_of(self, body: ChatCompletionRequest) -> list[MediaPart]:
        """The media of a request.

        Raises:
            Problem: 422, as ``collect``; unsupported_media also where this deployment cannot read any.
        """
        info, _ = self.ready()
        parts = collect(body.messages, {kind for kind, _ in info.media_tokens}, self._settings.media)
        if parts and not isinstance(self._media, Intake):
            reason = self._media or "This deployment reads text only"
            raise refused("unsupported_media", f"{reason}; it cannot take {parts[0].param}", parts[0].param)
        return parts

    @property
    def intake(self) -> Intake:
        """Reads media; only for requests whose media ``media_of`` has given."""
        assert isinstance(self._media, Intake)
        return self._media

    def ready(self) -> tuple[ModelInfo, Limits]:
        """The loaded model and its limits.

        Raises:
            Problem: 503 loading, stopping or engine_down.
        """
        front = self.front
        if front.state == "draining":
            raise self.problem(EngineError("stopping", "The server is stopping; try another one"))
        if front.state == "down":
            raise self.problem(EngineError("engine_down", "The engine is down"))
        if front.info is None or front.state == "loading":
            raise self.problem(EngineError("loading", "The model is still loading; try again soon"))
        return front.info, Limits.of(self._settings, front.info.max_position_embeddings)

    def loaded(self) -> tuple[ModelInfo, Limits]:
        """The same, whether or not requests are served now.

        Raises:
            Problem: 503 as ``ready`` does, until the model has been loaded once.
        """
        info = self.front.info
        return self.ready() if info is None else (info, Limits.of(self._settings, info.max_position_embeddings))

    def problem(self, error: EngineError) -> Problem:
        """The answer to an engine failure."""
        full = error.code == "queue_full"
        return from_engine(error, self.admission.retry_after_s if full else self._settings.retry_after_s)

    def engine_id(self) -> str:
        """A request id for the engine; clients' own ids may repeat."""
        return f"r{next(self._numbers)}"

    async def close(self) -> None:
        """End the worker processes, and the probe."""
        await self.probe.stop()
        await self._pool.close()
        await self.schemas.close()
        if isinstance(self._media, Intake):
            await self._media.close()
