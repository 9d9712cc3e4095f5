"""The first rank's runner: what it is told to do, the other ranks do too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from engine.executor import RankLost
from engine.lora_config import LinearLayer
from engine.parallel.ranks import CopyBeginning, CopyPages, Followers, Run
from engine.plan import AdapterTensors, ModelRunner, Plan
from engine.types import AdapterError

NO_ADAPTERS = "a model on several devices (worldSize above 1) takes no adapters."


class LeadingRunner:
    """The ``ModelRunner`` over one rank's part of a model.

    Its pages are numbered as everybody's are, and each rank keeps its own heads' keys and values in them. The sums over
    the ranks are made inside the forward, so that all of them have the logits; only here they are read.
    """

    def __init__(self, runner: ModelRunner, followers: Followers) -> None:
        """``runner`` is this rank's own; the followers have theirs, with as many pages."""
        self.info = runner.info
        self.page_size = runner.page_size
        self.contiguous_pages = runner.contiguous_pages
        self.num_pages = runner.num_pages
        self.bytes_per_page = runner.bytes_per_page
        self.same_bits = runner.same_bits
        self.selector = runner.selector
        self._runner = runner
        self._followers = followers

    def run(self, plan: Plan) -> Tensor:
        """See ``ModelRunner.run``.

        Raises:
            RankLost: whatever went wrong: who has come how far is not known any more.
        """
        self._followers.order(Run(plan))
        try:
            return self._runner.run(plan)
        except Exception as error:
            raise RankLost(f"a step of {self._followers.size} ranks failed: {error}") from error

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """See ``ModelRunner.copy_pages``."""
        self._followers.order(CopyPages(source, target))
        self._runner.copy_pages(source, target)

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``."""
        self._followers.order(CopyBeginning(source, target, tokens))
        self._runner.copy_beginning(source, target, tokens)

    def adapter_layers(self) -> Mapping[str, LinearLayer]:
        """See ``ModelRunner.adapter_layers``."""
        raise AdapterError(NO_ADAPTERS)

    def load_adapter(self, name: str, tensors: AdapterTensors) -> int:
        """See ``ModelRunner.load_adapter``."""
        raise AdapterError(NO_ADAPTERS)

    def unload_adapter(self, adapter: int) -> None:
        """See ``ModelRunner.unload_adapter``; there are none."""
