"""Which judge of faithfulness the settings name, made from the models of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.build import models
from ragstream_core.errors import UsageError
from ragstream_core.evaluation.judges import LlmJudge, NliJudge, QuoteJudge

if TYPE_CHECKING:
    from ragstream_core.agents.asking import Ask, Schema
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.evaluation.faithfulness import Judge
    from ragstream_core.orchestration.exchanges import Exchange, Exchanges
    from ragstream_core.records.chat import ChatMessage

JUDGES = ("auto", "nli", "quote", "llm")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge.

    Attributes:
        judge: It.
        weights: What its verdicts depend on besides the code: digest of its model.
        exchanges: What a language model was asked so far; None where none is.
    """

    judge: Judge
    weights: str
    exchanges: Exchanges | None = None

    @property
    def made(self) -> list[Exchange]:
        """The exchanges with a language model so far, in order."""
        return self.exchanges.made if self.exchanges is not None else []


def judge_of(workspace: Workspace, name: str) -> Chosen:
    """Return a judge.

    Args:
        workspace: Its settings say which models there are.
        name: One of `JUDGES`; ``auto``: the entailment model of the gate where its weights are on
            this machine, else by quote.

    Raises:
        UsageError: No such judge.
        WeightsMissing: The entailment model is not on this machine.
        RagstreamError: Another model cannot be had.
    """
    if name not in JUDGES:
        raise UsageError(f"no judge {name!r}", hint=f"one of {', '.join(JUDGES)}")
    config, found = workspace.config, workspace.config.chain().gate.model
    if name == "nli" or (name == "auto" and models.nli_is_here(config, found)):
        model = models.nli(found, models.models_dir(config))
        judge = NliJudge(model.entailment, name=f"nli:{found}")
        return Chosen(judge, models.reranker_weights(config, found))
    quote = QuoteJudge(models.embedder(config).embed_documents)
    weights = models.fingerprint(config)
    return _by_model(workspace, quote, weights) if name == "llm" else Chosen(quote, weights)


def _by_model(workspace: Workspace, other: Judge, weights: str) -> Chosen:
    from ragstream_core.build.asking import Guarded
    from ragstream_core.orchestration.exchanges import Exchanges

    model = models.chat_model(workspace.config)
    exchanges = Exchanges(Guarded(model))
    judge = LlmJudge(_asking(exchanges, other.name), other, name=f"llm:{model.name}")
    return Chosen(judge, weights, exchanges)


def _asking(exchanges: Exchanges, fallback: str) -> Ask:
    def ask(
        messages: Sequence[ChatMessage], schema: type[Schema], check: Callable[[Schema], str]
    ) -> tuple[Schema | None, str]:
        said = exchanges.ask("faithfulness", messages, schema, fallback=fallback, check=check)
        return said.value, said.reason

    return ask
