"""The forms in which models write their reasoning into the text of a reply, each with its source.

A form is in the table if a vendor, or a server that parses it, documents it. To add one is to add a row here, and one in
docs/reference/metrics.md.
"""

from __future__ import annotations

import re
from functools import cached_property

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to mark reasoning: a mark before it, one after it, and perhaps marks around the answer."""

    opening: str
    closing: str
    models: str
    source: str
    """Where it is documented."""
    lead: str = ""
    """A mark that may stand before `opening` and before `answer`: it begins a message."""
    answer: str = ""
    """A mark between the reasoning and the answer."""
    ends: tuple[str, ...] = ()
    """Marks that end the answer."""
    may_begin_in_prompt: bool = False
    """A chat template writes the opening mark: then only the closing one is in the reply."""
    needs_closing: bool = False
    """The marks are plain words: a reply that has the first alone is an answer."""
    is_channels: bool = False
    """Reasoning and answer are messages on channels. `closing` begins the answer, and the last one counts."""
    spelling: str = ""
    """A pattern for `opening`, where it is spelled in several ways."""
    closing_spelling: str = ""
    inner: str = ""
    """A pattern for marks inside the reasoning."""

    @property
    def opening_pattern(self) -> str:
        return self._after_lead(self.spelling or re.escape(self.opening))

    @cached_property
    def closing_pattern(self) -> re.Pattern[str]:
        return re.compile(self.closing_spelling or re.escape(self.closing))

    @cached_property
    def pair_pattern(self) -> re.Pattern[str]:
        """Matches each opening mark, as group 1, and each closing one."""
        return re.compile(f"({re.escape(self.opening)})|{re.escape(self.closing)}")

    @cached_property
    def answer_pattern(self) -> re.Pattern[str]:
        return re.compile(rf"\s*+{self._after_lead(re.escape(self.answer))}")

    @cached_property
    def end_pattern(self) -> re.Pattern[str]:
        """Matches a mark that ends the answer: after it come another mark, another message, or nothing."""
        marks = "|".join(map(re.escape, self.ends))
        following = "|".join(map(re.escape, (*self.ends, *([self.lead] if self.lead else []))))
        return re.compile(rf"(?:{marks})\s*+(?:\Z|{following})")

    @cached_property
    def marks_pattern(self) -> re.Pattern[str]:
        """Matches all marks of the reasoning."""
        marks = [self.inner, self.closing_pattern.pattern, self.spelling or re.escape(self.opening)]
        marks += [re.escape(mark) for mark in (self.answer, self.lead) if mark]
        return re.compile("|".join(mark for mark in marks if mark))

    def _after_lead(self, pattern: str) -> str:
        return rf"(?:{re.escape(self.lead)}\s*+)?{pattern}" if self.lead else pattern


_VLLM = "https://docs.vllm.ai/en/stable/features/reasoning_outputs/"
_SGLANG = "https://docs.sglang.io/docs/advanced_features/separate_reasoning"
_SGLANG_PARSERS = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/parser/reasoning_parser.py"
_OPEN_WEBUI = "https://docs.openwebui.com/features/chat-features/reasoning-models"
_PROMPTED = "models whose prompt asks for it"
# A real header is at the beginning of the reply, or after the end of a message: elsewhere it is quoted.
_FINAL = (
    r"(?:\A\s*+(?:<\|start\|>assistant)?|<\|start\|>assistant|<\|end\|>)\s*+"
    r"<\|channel\|>\s*+final[^<]*+(?:<\|constrain\|>[^<]*+)?<\|message\|>"
)
_HEADER = r"<\|start\|>assistant[^<]*+|<\|channel\|>[^<]*+|<\|constrain\|>[^<]*+|<\|(?:message|end|call|return)\|>"

FORMS: tuple[Form, ...] = (
    Form(
        opening="<think>",
        closing="</think>",
        models="DeepSeek R1, Qwen3, QwQ, GLM-4.5, Kimi K2 Thinking, MiniMax M2, Nemotron 3, Olmo 3, Phi-4-reasoning, Granite 4.2",
        source=_VLLM,
        may_begin_in_prompt=True,
    ),
    Form(
        opening="<thought>",
        closing="</thought>",
        models="EXAONE Deep",
        source="https://huggingface.co/LGAI-EXAONE/EXAONE-Deep-32B",
        may_begin_in_prompt=True,
    ),
    *(
        Form(
            opening=f"<{name}>",
            closing=f"</{name}>",
            models=_PROMPTED,
            source=_OPEN_WEBUI,
            # The prompt that asks for the tags often ends with the first.
            may_begin_in_prompt=True,
        )
        for name in ("thinking", "reasoning", "reason")
    ),
    Form(
        opening="<seed:think>",
        closing="</seed:think>",
        models="Seed-OSS",
        source="https://docs.vllm.ai/en/stable/api/vllm/reasoning/seedoss_reasoning_parser/",
        may_begin_in_prompt=True,
    ),
    Form(
        opening="<mm:think>",
        closing="</mm:think>",
        models="MiniMax M3",
        source=_SGLANG_PARSERS,
        may_begin_in_prompt=True,
    ),
    Form(
        opening="<longcat_think>",
        closing="</longcat_think>",
        models="LongCat-Flash-Thinking",
        source="https://huggingface.co/meituan-longcat/LongCat-Flash-Thinking",
        may_begin_in_prompt=True,
    ),
    # vLLM documents that a closing mark alone is not reasoning.
    Form(
        opening="[THINK]",
        closing="[/THINK]",
        models="Magistral, Mistral Small 4",
        source="https://docs.vllm.ai/en/stable/api/vllm/reasoning/mistral_reasoning_parser/",
    ),
    Form(opening="◁think▷", closing="◁/think▷", models="Kimi-VL Thinking", source=_SGLANG),
    Form(
        opening="<|channel|>",
        closing="<|channel|>final<|message|>",
        models="gpt-oss",
        source="https://github.com/openai/harmony/blob/main/docs/format.md",
        lead="<|start|>assistant",
        ends=("<|return|>", "<|end|>", "<|call|>"),
        may_begin_in_prompt=True,
        is_channels=True,
        closing_spelling=_FINAL,
        inner=_HEADER,
    ),
    Form(
        opening="analysis",
        closing="assistantfinal",
        models="gpt-oss, without its special tokens",
        source="https://github.com/llama-farm/llamafarm/issues/753",
        needs_closing=True,
        is_channels=True,
        inner="assistant(?:analysis|commentary)",
    ),
    Form(
        opening="<|channel>thought",
        closing="<channel|>",
        models="Gemma 4",
        source="https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4",
        ends=("<turn|>",),
    ),
    Form(
        opening="<unused94>",
        closing="<unused95>",
        models="MedGemma 1.5",
        source="https://ollama.com/jordimurgo/medgemma1.5-thinking",
        inner=r"<unused94>\s?thought",
    ),
    Form(
        opening="<|START_THINKING|>",
        closing="<|END_THINKING|>",
        models="Command R7B, Command A Reasoning",
        source="https://docs.vllm.ai/en/stable/api/vllm/reasoning/cohere_command_reasoning_parser/",
        answer="<|START_RESPONSE|>",
        ends=("<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"),
        may_begin_in_prompt=True,
    ),
    Form(
        opening="<|open|>think<|sep|>",
        closing="<|close|>think<|sep|>",
        models="Kimi K3",
        source=_SGLANG_PARSERS,
        answer="<|open|>response<|sep|>",
        ends=("<|close|>response<|sep|>", "<|close|>message<|sep|>"),
        may_begin_in_prompt=True,
    ),
    Form(
        opening="<|content_thinking|>",
        closing="<|end_message|>",
        models="Inkling",
        source=_SGLANG_PARSERS,
        lead="<|message_model|>",
        answer="<|content_text|>",
        ends=("<|end_message|>", "<|content_model_end_sampling|>"),
    ),
    Form(opening="<|inner_prefix|>", closing="<|inner_suffix|>", models="Apertus", source=_SGLANG_PARSERS),
    Form(
        opening="<|begin_of_thought|>",
        closing="<|end_of_thought|>",
        models="Sky-T1, models trained on OpenThoughts",
        source=_OPEN_WEBUI,
        answer="<|begin_of_solution|>",
        ends=("<|end_of_solution|>",),
    ),
    Form(
        opening="Here is my thought process:",
        closing="Here is my response:",
        models="Granite 3.2",
        source="https://docs.vllm.ai/en/stable/api/vllm/reasoning/granite_reasoning_parser/",
        needs_closing=True,
        # vLLM: quantized models write "Here's".
        spelling="Here(?: is|'s) my thought process:",
        closing_spelling="Here(?: is|'s) my response:",
    ),
)
