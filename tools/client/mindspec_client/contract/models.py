"""The schemas of the contract as pydantic models. Generated from the spec; do not edit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from .base import ContractModel, Integer, Keys, NotNull, OneOf, RequestModel


class StreamOptions(ContractModel):
    """
    What a stream sends besides.
    """

    include_usage: StrictBool | None = None
    """
    Where the deployment answers in OpenAI's form, true moves the usage out of the choices' last events into one last event, without choices, for all of them. Otherwise it does nothing - usage comes in each choice's last event.
    """


class JsonSchemaFormat(ContractModel):
    """
    A JSON Schema with a name.
    """

    name: Annotated[str, Field(strict=True, min_length=1, max_length=64)]
    """
    A name for the form. Has no effect on the answer.
    """

    description: StrictStr | None = None
    """
    What the form is for. Has no effect on the answer; tell the model in a message.
    """

    schema_: dict[str, Any] = Field(..., alias="schema")
    """
    The JSON Schema that the answer's text validates under.
    """

    strict: StrictBool | None = None
    """
    The schema is enforced with either value; with true, objects that say nothing of additionalProperties have none.
    """


class ResponseFormat(ContractModel):
    """
    The form of the answer's text - any text, a JSON object, or JSON under a schema.
    """

    type: Literal["text", "json_object", "json_schema"]
    """
    text asks for nothing, json_object for any JSON object, json_schema for JSON that validates under json_schema.schema.
    """

    json_schema: JsonSchemaFormat | None = None
    """
    The schema, with type json_schema only.
    """


class ImageUrl(ContractModel):
    """
    Where an image is.
    """

    url: Annotated[str, Field(strict=True, min_length=1)]
    """
    The image's path, address, data URI or Base64 text.
    """

    detail: StrictStr | None = None
    """
    A hint on resolution that some clients send. Has no effect; the model's processor decides.
    """


class MediaUrl(ContractModel):
    """
    Where a video or a recording is.
    """

    url: Annotated[str, Field(strict=True, min_length=1)]
    """
    The path, address or data URI.
    """


class InputAudio(ContractModel):
    """
    A recording inside the request.
    """

    data: Annotated[str, Field(strict=True, min_length=1)]
    """
    The recording in Base64.
    """

    format: Annotated[str, Field(strict=True, pattern="(?i)^(?:mp3|wav|flac)$")]
    """
    The recording's format, in any letter case.
    """


class ContentPart(ContractModel):
    """
    One piece of a message, text or media. It carries exactly one payload; `type` may be left out, the payload then says what it is.
    """

    type: Literal["text", "image_url", "video_url", "audio_url", "input_audio"] | None = None
    """
    What the part is.
    """

    text: Annotated[str, Field(strict=True, min_length=1)] | None = None
    """
    The text of a text part.
    """

    image_url: (
        Annotated[Annotated[str, Field(strict=True, min_length=1)] | ImageUrl, OneOf("string", "object")] | None
    ) = None
    """
    A JPG or PNG image of at most 40 MB - a path in the server's media folder, a file:// or http(s) address of at most 4096 characters, a data URI, or Base64. What it is shows in its content, not in its name.
    """

    video_url: (
        Annotated[Annotated[str, Field(strict=True, min_length=1)] | MediaUrl, OneOf("string", "object")] | None
    ) = None
    """
    An MP4, AVI or WMV video of at most 512 MB - a path in the server's media folder, a file:// or http(s) address of at most 4096 characters, or a data URI.
    """

    audio_url: (
        Annotated[Annotated[str, Field(strict=True, min_length=1)] | MediaUrl, OneOf("string", "object")] | None
    ) = None
    """
    An MP3, WAV or FLAC recording of at most 40 MB - a path in the server's media folder, a file:// or http(s) address of at most 4096 characters, or a data URI.
    """

    input_audio: InputAudio | None = None
    """
    A recording of at most 20 MB, decoded, inside the request.
    """


class CalledFunction(ContractModel):
    """
    The function that was called, and with what.
    """

    name: Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern="^[A-Za-z0-9_\\-\\u4e00-\\u9fa5]+$")]
    """
    The function's name - letters, digits, underscore, hyphen and Chinese characters (U+4E00 to U+9FA5).
    """

    arguments: StrictStr
    """
    The arguments as JSON text. Any text is accepted; a template that needs an object refuses what does not parse.
    """


class ToolCall(ContractModel):
    """
    A function call that the assistant made.
    """

    function: CalledFunction
    """
    The function that was called, and with what.
    """

    id: StrictStr
    """
    The call's id; a tool message answers it by tool_call_id.
    """

    type: Literal["function"]
    """
    Always function.
    """


class Message(ContractModel):
    """
    One message of a conversation.
    """

    role: Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern="^[^\\x00-\\x1f\\x7f<>|\\[\\]]+$")]
    """
    Who speaks - system, user, assistant or tool, or any other role that the model's template knows (developer is taken as system where it does not). Control tokens are not allowed in it.
    """

    content: (
        Annotated[StrictStr | Annotated[list[ContentPart], Field(fail_fast=True)], OneOf("string", "list")] | None
    ) = None
    """
    The text, or a list of parts, each of which has its payload in text, image_url, video_url, audio_url or input_audio. Must not be empty, except for an assistant that calls tools and for a tool's result.
    """

    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None = None
    """
    The calls that the assistant made in this turn.
    """

    tool_call_id: StrictStr | None = None
    """
    The call that this tool message answers.
    """

    reasoning_content: StrictStr | None = None
    """
    The assistant's earlier chain of thought, as it was returned. Reaches the template.
    """

    name: StrictStr | None = None
    """
    A name for the speaker. Reaches the template; few templates show it.
    """

    refusal: StrictStr | None = None
    """
    A refusal that a client sends back from another server. Reaches the template; few templates show it.
    """


class ChatTemplateKwargs(ContractModel):
    """
    Variables that the chat template may read. Names that the server itself sets are refused.
    """

    enable_thinking: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Switches a thinking model's chain of thought on or off. Absent, the model's own configuration decides.
    """

    thinking_budget: Annotated[
        Annotated[int, Integer(ge=1, le=2147483647)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Most tokens of a thinking model's chain of thought; the thought is ended when it has had them, and the answer begins.
    """


class ToolFunction(ContractModel):
    """
    What the function is called, does and takes.
    """

    name: Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern="^[A-Za-z0-9_\\-\\u4e00-\\u9fa5]+$")]
    """
    The function's name - letters, digits, underscore, hyphen and Chinese characters (U+4E00 to U+9FA5).
    """

    strict: StrictBool | None = None
    """
    true generates the arguments under the schema in `parameters`, so they always validate.
    """

    description: StrictStr | None = None
    """
    What the function does and when to use it.
    """

    parameters: dict[str, Any] | None = None
    """
    The arguments as a JSON Schema object - type, properties, required, additionalProperties and any other keyword.
    """


class Tool(ContractModel):
    """
    A function that the model may call.
    """

    type: Literal["function"]
    """
    Always function.
    """

    function: ToolFunction
    """
    What the function is called, does and takes.
    """


class NamedFunction(ContractModel):
    """
    The function to call.
    """

    name: Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern="^[A-Za-z0-9_\\-\\u4e00-\\u9fa5]+$")]
    """
    The function's name - letters, digits, underscore, hyphen and Chinese characters (U+4E00 to U+9FA5).
    """


class NamedToolChoice(ContractModel):
    """
    The one tool that the model must call.
    """

    type: Literal["function"]
    """
    Always function.
    """

    function: NamedFunction
    """
    The function to call.
    """


class ChatCompletionRequest(RequestModel):
    """
    A conversation and how to answer it.
    """

    model: Annotated[str, Field(strict=True, min_length=1)]
    """
    The deployed model's name, or the name of a LoRA adapter. An unknown name is refused with 422.
    """

    messages: Annotated[list[Message], Field(fail_fast=True, min_length=1)]
    """
    The conversation so far, oldest first. The text of all messages together has at most 4194304 characters, and the rendered prompt must fit the deployment's token limits.
    """

    stream: StrictBool | None = None
    """
    true sends the answer as server-sent events while it is generated; false sends it whole.
    """

    presence_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-2, le=2)] | None = None
    """
    Subtracted once from the logit of every token that the answer already has; above 0 favours new words. Counts output tokens only. Better not changed together with repetition_penalty.
    """

    frequency_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-2, le=2)] | None = None
    """
    Subtracted from a token's logit once for every time the answer already has it; above 0 makes repetition less likely. Counts output tokens only. Better not changed together with repetition_penalty.
    """

    repetition_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=2)] | None = None
    """
    Divides the positive and multiplies the negative logits of tokens that the prompt or the answer has. Above 1 discourages repetition, below 1 rewards it, 1 changes nothing. Better not changed together with the other two penalties.
    """

    temperature: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=3.4028234e38)] | None = None
    """
    Logits are divided by it before a token is drawn; higher is more random. 0, and anything below 0.00001, always takes the likeliest token, and the other sampling fields then do nothing. Values up to 2 are advised; below 0.001 the text may suffer. Absent, the model's generation_config.json decides.
    """

    top_p: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=1e-06, le=1)] | None = None
    """
    Draws from the smallest set of likeliest tokens whose probabilities reach this sum. Applied after top_k.
    """

    top_k: (
        Annotated[int, Integer(ge=-1, le=2147483647, exclude=(0,), openai_form=Integer(ge=0, le=2147483647))] | None
    ) = None
    """
    Draws from this many likeliest tokens; -1 keeps all, a number above the vocabulary is the vocabulary. 0 is refused. Where the deployment answers in OpenAI's form it is the other way round - 0 keeps all and -1 is refused. Absent, the model's generation_config.json decides, else 1000.
    """

    seed: Annotated[int, Integer(ge=0, le=18446744073709551615)] | None = None
    """
    Fixes the random draws; the same seed and request give the same text. Any unsigned 64-bit number. Absent, the server picks one.
    """

    stop: (
        Annotated[
            Annotated[str, Field(strict=True, min_length=1, max_length=32768)]
            | Annotated[
                list[Annotated[str, Field(strict=True, min_length=1, max_length=32768)]], Field(fail_fast=True)
            ],
            OneOf("string", "list"),
        ]
        | None
    ) = None
    """
    One text, or a list of texts, at which generation stops. The text itself is cut from the answer unless include_stop_str_in_output is true. A list has at most 32768 characters in all; an empty list counts as null.
    """

    stop_token_ids: Annotated[list[Annotated[int, Integer()]], Field(fail_fast=True)] | None = None
    """
    Token ids at which generation stops. Values outside int32 are dropped; a null element is refused; an empty list counts as null.
    """

    include_stop_str_in_output: StrictBool | None = None
    """
    true keeps the stop text, or the stop token's text, at the end of the answer. Does nothing without stop and stop_token_ids.
    """

    skip_special_tokens: StrictBool | None = None
    """
    true leaves special tokens out of the text, false shows them.
    """

    ignore_eos: StrictBool | None = None
    """
    true goes on past the model's end-of-sequence token until another limit is met.
    """

    max_tokens: Annotated[int, Integer(ge=1, le=2147483647)] | None = None
    """
    Most tokens to generate for one choice. The deployment's maxIterTimes and the room that the prompt leaves under maxSeqLen limit it further. Absent, only those two count.
    """

    use_beam_search: StrictBool | None = None
    """
    true runs a beam search of width n and returns its n best sequences, by cumulative logprob divided by length. temperature, top_p, top_k and seed then do nothing. With stream the answer comes as one event.
    """

    best_of: Annotated[int, Integer(ge=1, le=128)] | None = None
    """
    Without beam search, the number of sequences to generate; all are returned, best mean logprob first when it is above n. With beam search only its range is checked. Will be removed; use n.
    """

    n: Annotated[int, Integer(ge=1, le=8192)] | None = None
    """
    The number of choices when best_of is absent, and the width of a beam search. The deployment's maxN (128 unless configured) is a second limit.
    """

    logprobs: StrictBool | None = None
    """
    true returns the log probability of every generated token, as the model gave it, before penalties, temperature and filters.
    """

    top_logprobs: Annotated[int, Integer(ge=0, le=20)] | None = None
    """
    How many of the likeliest tokens to list at each position. Given without logprobs, it turns logprobs on.
    """

    chat_template_kwargs: (
        Annotated[ChatTemplateKwargs, Keys("messages", "tools", "add_generation_prompt", "tokenize", "chat_template")]
        | None
    ) = None
    """
    Variables for the chat template.
    """

    tools: Annotated[list[Tool], Field(fail_fast=True)] | None = None
    """
    Functions that the model may call. An empty list counts as null.
    """

    tool_choice: Annotated[Literal["none", "auto", "required"] | NamedToolChoice, OneOf("string", "object")] | None = (
        None
    )
    """
    none keeps the model from calling, auto leaves it the choice, required (an extension) makes it call at least one tool, an object makes it call the named one.
    """

    chat_template: Annotated[str, Field(strict=True, min_length=1, max_length=1048576)] | None = None
    """
    A Jinja template for this request alone, as text or as the absolute path of a .jinja file inside the folder that the deployment allows. Rendered in a sandbox with limits on time, memory and output.
    """

    max_completion_tokens: Annotated[int, Integer(ge=1, le=2147483647)] | None = None
    """
    Another name for max_tokens, as OpenAI's newer clients send it. Where both are given they must be equal.
    """

    parallel_tool_calls: StrictBool | None = None
    """
    false keeps the answer to at most one tool call. Does nothing without tools.
    """

    response_format: ResponseFormat | None = None
    """
    What form the answer's text has. Absent, any text.
    """

    stream_options: StreamOptions | None = None
    """
    What a stream sends besides. Does nothing without stream.
    """


class CompletionRequest(RequestModel):
    """
    A text and how to continue it.
    """

    model: Annotated[str, Field(strict=True, min_length=1)]
    """
    The deployed model's name, or the name of a LoRA adapter. An unknown name is refused with 422.
    """

    prompt: Annotated[
        Annotated[str, Field(strict=True, min_length=1, max_length=4194304)]
        | Annotated[list[Annotated[int, Integer()]], Field(fail_fast=True, min_length=1)],
        OneOf("string", "list"),
    ]
    """
    The text to continue, in any language, or (an extension) its token ids. Its tokens must fit the deployment's limits.
    """

    use_beam_search: StrictBool | None = None
    """
    true runs a beam search of width n and returns its n best sequences, by cumulative logprob divided by length. temperature, top_p, top_k and seed then do nothing. With stream the answer comes as one event.
    """

    best_of: Annotated[int, Integer(ge=1, le=128)] | None = None
    """
    Without beam search, the number of sequences to generate; all are returned, best mean logprob first when it is above n. With beam search only its range is checked. Will be removed; use n.
    """

    n: Annotated[int, Integer(ge=1, le=8192)] | None = None
    """
    The number of choices when best_of is absent, and the width of a beam search. The deployment's maxN (128 unless configured) is a second limit.
    """

    logprobs: Annotated[int, Integer(ge=0, le=5)] | None = None
    """
    How many of the likeliest tokens to list at each position, after the chosen one; 0 lists the chosen token alone. The log probabilities are the model's own, before penalties, temperature and filters.
    """

    max_tokens: Annotated[int, Integer(ge=1, le=2147483647)] | None = None
    """
    Most tokens to generate for one choice. The deployment's maxIterTimes and the room that the prompt leaves under maxSeqLen limit it further. Absent, only those two count.
    """

    seed: Annotated[int, Integer(ge=1, le=18446744073709551615)] | None = None
    """
    Fixes the random draws; the same seed and request give the same text. Any unsigned 64-bit number but 0. Absent, the server picks one.
    """

    stop: (
        Annotated[
            Annotated[str, Field(strict=True, min_length=1, max_length=32768)]
            | Annotated[
                list[Annotated[str, Field(strict=True, min_length=1, max_length=32768)]], Field(fail_fast=True)
            ],
            OneOf("string", "list"),
        ]
        | None
    ) = None
    """
    One text, or a list of texts, at which generation stops. The text itself is cut from the answer unless include_stop_str_in_output is true. A list has at most 32768 characters in all; an empty list counts as null.
    """

    stop_token_ids: Annotated[list[Annotated[int, Integer()]], Field(fail_fast=True)] | None = None
    """
    Token ids at which generation stops. Values outside int32 are dropped; a null element is refused; an empty list counts as null.
    """

    include_stop_str_in_output: StrictBool | None = None
    """
    true keeps the stop text, or the stop token's text, at the end of the answer. Does nothing without stop and stop_token_ids.
    """

    stream: StrictBool | None = None
    """
    true sends the answer as server-sent events while it is generated; false sends it whole.
    """

    repetition_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=2)] | None = None
    """
    Divides the positive and multiplies the negative logits of tokens that the prompt or the answer has. Above 1 discourages repetition, below 1 rewards it, 1 changes nothing. Better not changed together with the other two penalties.
    """

    presence_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-2, le=2)] | None = None
    """
    Subtracted once from the logit of every token that the answer already has; above 0 favours new words. Counts output tokens only. Better not changed together with repetition_penalty.
    """

    frequency_penalty: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-2, le=2)] | None = None
    """
    Subtracted from a token's logit once for every time the answer already has it; above 0 makes repetition less likely. Counts output tokens only. Better not changed together with repetition_penalty.
    """

    temperature: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=3.4028234e38)] | None = None
    """
    Logits are divided by it before a token is drawn; higher is more random. 0, and anything below 0.00001, always takes the likeliest token, and the other sampling fields then do nothing. Values up to 2 are advised; below 0.001 the text may suffer. Absent, the model's generation_config.json decides.
    """

    top_p: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=1e-06, le=1)] | None = None
    """
    Draws from the smallest set of likeliest tokens whose probabilities reach this sum. Applied after top_k.
    """

    top_k: (
        Annotated[int, Integer(ge=-1, le=2147483647, exclude=(0,), openai_form=Integer(ge=0, le=2147483647))] | None
    ) = None
    """
    Draws from this many likeliest tokens; -1 keeps all, a number above the vocabulary is the vocabulary. 0 is refused. Where the deployment answers in OpenAI's form it is the other way round - 0 keeps all and -1 is refused. Absent, the model's generation_config.json decides, else 1000.
    """

    ignore_eos: StrictBool | None = None
    """
    true goes on past the model's end-of-sequence token until another limit is met.
    """

    skip_special_tokens: StrictBool | None = None
    """
    true leaves special tokens out of the text, false shows them.
    """

    response_format: ResponseFormat | None = None
    """
    What form the answer's text has. Absent, any text.
    """

    stream_options: StreamOptions | None = None
    """
    What a stream sends besides. Does nothing without stream.
    """


class PromptTokensDetails(ContractModel):
    """
    Where the prompt's tokens came from.
    """

    cached_tokens: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Prompt tokens that were found in the prefix cache.
    """


class CompletionTokensDetails(ContractModel):
    """
    What the generated tokens were for. Only thinking models have it.
    """

    reasoning_tokens: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    Tokens of the chain of thought.
    """


class Usage(ContractModel):
    """
    Counts and measurements of the request. A whole answer sums all choices; in a stream each choice's last event counts its own.
    """

    prompt_tokens: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of the prompt.
    """

    prompt_tokens_details: PromptTokensDetails
    """
    Where the prompt's tokens came from.
    """

    completion_tokens: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    Tokens generated, end-of-sequence and stop tokens included.
    """

    completion_tokens_details: Annotated[
        CompletionTokensDetails | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    What the generated tokens were for. Only thinking models have it.
    """

    total_tokens: Annotated[int, Integer(ge=1, le=9007199254740991)]
    """
    prompt_tokens plus completion_tokens.
    """

    batch_size: Annotated[list[Annotated[int, Integer(ge=1, le=2147483647)]], Field(fail_fast=True)]
    """
    Sequences that ran together in each round, one entry for each token of the longest choice.
    """

    queue_wait_time: Annotated[list[Annotated[int, Integer(ge=0, le=9007199254740991)]], Field(fail_fast=True)]
    """
    Microseconds that the request waited before each round, one entry for each token of the longest choice.
    """


class AssistantMessage(ContractModel):
    """
    The message that the model wrote.
    """

    role: Literal["assistant"]
    """
    Always assistant.
    """

    content: StrictStr | None
    """
    The text of the answer.
    """

    reasoning_content: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The chain of thought, where the deployment splits it from the text. A stop text found in it stays in it.
    """

    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)]
    """
    The calls that the model makes; an empty list when there are none.
    """


class ChatTopLogprob(ContractModel):
    """
    A token that could have come here.
    """

    token: StrictStr
    """
    The token's text; bytes that are no whole character show as U+FFFD.
    """

    logprob: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-3.4028235e38, le=0)]
    """
    The natural logarithm of the token's probability.
    """

    bytes: Annotated[list[Annotated[int, Integer(ge=0, le=255)]], Field(fail_fast=True)]
    """
    The token's own bytes.
    """


class ChatTokenLogprob(ContractModel):
    """
    A generated token.
    """

    token: StrictStr
    """
    The token's text; bytes that are no whole character show as U+FFFD.
    """

    logprob: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-3.4028235e38, le=0)]
    """
    The natural logarithm of the token's probability.
    """

    bytes: Annotated[list[Annotated[int, Integer(ge=0, le=255)]], Field(fail_fast=True)]
    """
    The token's own bytes.
    """

    top_logprobs: Annotated[list[ChatTopLogprob], Field(fail_fast=True)]
    """
    The likeliest tokens at this position, best first.
    """


class ChatLogprobs(ContractModel):
    """
    Log probabilities of a chat choice.
    """

    content: Annotated[list[ChatTokenLogprob], Field(fail_fast=True)]
    """
    One entry for each generated token.
    """


class ChatChoice(ContractModel):
    """
    One answer to the conversation.
    """

    index: Annotated[int, Integer(ge=0, le=8191)]
    """
    The choice's place, from 0.
    """

    message: AssistantMessage
    """
    The message that the model wrote.
    """

    logprobs: ChatLogprobs | None
    """
    Log probabilities, where asked for.
    """

    finish_reason: Literal["stop", "length", "tool_calls"]
    """
    Why the choice ended - stop at an end-of-sequence token, a stop token or a stop text; length at a token limit; tool_calls when the model calls tools.
    """


class ChatCompletion(ContractModel):
    """
    A whole chat answer.
    """

    id: Annotated[str, Field(strict=True, min_length=1, max_length=256)]
    """
    The request's id - its req-id header, or endpoint_common_N.
    """

    object: Literal["chat.completion"]
    """
    Always chat.completion.
    """

    created: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    When the answer was made, in seconds since 1970.
    """

    model: StrictStr
    """
    The model name as the request gave it.
    """

    choices: Annotated[list[ChatChoice], Field(fail_fast=True, min_length=1)]
    """
    The choices, best first where they are ranked.
    """

    usage: Usage
    """
    Counts and measurements of the request. A whole answer sums all choices; in a stream each choice's last event counts its own.
    """

    prefill_time: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    Milliseconds to the first token.
    """

    decode_time_arr: Annotated[list[Annotated[int, Integer(ge=0, le=9007199254740991)]], Field(fail_fast=True)]
    """
    Milliseconds of each round after the first.
    """


class CalledFunctionDelta(ContractModel):
    """
    The name, in the call's first piece, and pieces of the arguments.
    """

    name: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The function's name.
    """

    arguments: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    More of the arguments' JSON text.
    """


class ToolCallDelta(ContractModel):
    """
    A new call, or more of its arguments.
    """

    index: Annotated[int, Integer(ge=0, le=1023)]
    """
    The call's place in the answer, from 0.
    """

    id: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The call's id, in the call's first piece.
    """

    type: Annotated[Literal["function"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Always function, in the call's first piece.
    """

    function: CalledFunctionDelta
    """
    The name, in the call's first piece, and pieces of the arguments.
    """


class ChatDelta(ContractModel):
    """
    New text, reasoning or calls.
    """

    role: Annotated[Literal["assistant"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Always assistant. In every event, or in OpenAI's form in a choice's first event only.
    """

    content: StrictStr | None = None
    """
    The text since the last event, or all text so far where the deployment has fullTextEnabled.
    """

    reasoning_content: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The chain of thought since the last event.
    """

    tool_calls: Annotated[
        Annotated[list[ToolCallDelta], Field(fail_fast=True)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    New calls, and new pieces of their arguments.
    """


class ChatChunkChoice(ContractModel):
    """
    What is new in one choice.
    """

    index: Annotated[int, Integer(ge=0, le=8191)]
    """
    The choice's place, from 0.
    """

    delta: ChatDelta
    """
    New text, reasoning or calls.
    """

    message: Annotated[AssistantMessage | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The message that the model wrote.
    """

    logprobs: ChatLogprobs | None
    """
    Log probabilities of the tokens of this event, where asked for.
    """

    finish_reason: Literal["stop", "length", "tool_calls"] | None
    """
    Why the choice ended, in its last event; null before.
    """


class ChatCompletionChunk(ContractModel):
    """
    A piece of a streamed chat answer.
    """

    id: Annotated[str, Field(strict=True, min_length=1, max_length=256)]
    """
    The request's id - its req-id header, or endpoint_common_N.
    """

    object: Literal["chat.completion.chunk"]
    """
    Always chat.completion.chunk.
    """

    created: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    When the answer was made, in seconds since 1970.
    """

    model: StrictStr
    """
    The model name as the request gave it.
    """

    full_text: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The whole text of the choice, in its last event, where the deployment has fullTextEnabled.
    """

    usage: Annotated[Usage | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Counts and measurements of the request. A whole answer sums all choices; in a stream each choice's last event counts its own.
    """

    choices: Annotated[list[ChatChunkChoice], Field(fail_fast=True)]
    """
    The choice that has news; all choices in the one event of a beam search; none in the event that stream_options.include_usage asks for.
    """


class CompletionLogprobs(ContractModel):
    """
    Log probabilities of a continuation, as four lists of equal length.
    """

    text_offset: Annotated[list[Annotated[int, Integer(ge=0, le=9007199254740991)]], Field(fail_fast=True)]
    """
    Where each token's text begins, in characters. Runs on from choice to choice in whole answers and beam searches.
    """

    token_logprobs: Annotated[
        list[Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-3.4028235e38, le=0)]], Field(fail_fast=True)
    ]
    """
    The log probability of each chosen token.
    """

    tokens: Annotated[list[StrictStr], Field(fail_fast=True)]
    """
    The chosen tokens.
    """

    top_logprobs: Annotated[
        list[dict[str, Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-3.4028235e38, le=0)]]],
        Field(fail_fast=True),
    ]
    """
    At each position the chosen token first, then the likeliest others, best first. Of tokens with equal text the likelier is kept, the chosen one always.
    """


class CompletionChoice(ContractModel):
    """
    One continuation of the prompt.
    """

    index: Annotated[int, Integer(ge=0, le=8191)]
    """
    The choice's place, from 0.
    """

    text: StrictStr
    """
    The text generated.
    """

    logprobs: CompletionLogprobs | None
    """
    Log probabilities, where asked for.
    """

    stop_reason: (
        Annotated[StrictStr | Annotated[int, Integer(ge=-2147483648, le=2147483647)], OneOf("string", "integer")] | None
    )
    """
    The stop text or the stop token's id that ended the choice; null for end of sequence and for length.
    """

    finish_reason: Literal["stop", "length", "tool_calls"]
    """
    Why the choice ended - stop at an end-of-sequence token, a stop token or a stop text; length at a token limit; tool_calls when the model calls tools.
    """


class Completion(ContractModel):
    """
    A whole completions answer.
    """

    id: Annotated[str, Field(strict=True, min_length=1, max_length=256)]
    """
    The request's id - its req-id header, or endpoint_common_N.
    """

    object: Literal["text_completion"]
    """
    Always text_completion.
    """

    created: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    When the answer was made, in seconds since 1970.
    """

    model: StrictStr
    """
    The model name as the request gave it.
    """

    choices: Annotated[list[CompletionChoice], Field(fail_fast=True, min_length=1)]
    """
    The choices, best first where they are ranked.
    """

    usage: Usage
    """
    Counts and measurements of the request. A whole answer sums all choices; in a stream each choice's last event counts its own.
    """


class CompletionChunkChoice(ContractModel):
    """
    What is new in one choice.
    """

    index: Annotated[int, Integer(ge=0, le=8191)]
    """
    The choice's place, from 0.
    """

    text: StrictStr
    """
    The text since the last event.
    """

    logprobs: CompletionLogprobs | None
    """
    Log probabilities of the tokens of this event, where asked for.
    """

    stop_reason: (
        Annotated[StrictStr | Annotated[int, Integer(ge=-2147483648, le=2147483647)], OneOf("string", "integer")] | None
    )
    """
    The stop text or the stop token's id that ended the choice; null for end of sequence and for length.
    """

    finish_reason: Literal["stop", "length", "tool_calls"] | None
    """
    Why the choice ended, in its last event; null before.
    """


class CompletionChunk(ContractModel):
    """
    A piece of a streamed continuation.
    """

    id: Annotated[str, Field(strict=True, min_length=1, max_length=256)]
    """
    The request's id - its req-id header, or endpoint_common_N.
    """

    object: Literal["text_completion"]
    """
    Always text_completion.
    """

    created: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    When the answer was made, in seconds since 1970.
    """

    model: StrictStr
    """
    The model name as the request gave it.
    """

    choices: Annotated[list[CompletionChunkChoice], Field(fail_fast=True)]
    """
    The choice that has news; all choices in the one event of a beam search; none in the event that stream_options.include_usage asks for.
    """

    usage: Annotated[Usage | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Counts and measurements of the request. A whole answer sums all choices; in a stream each choice's last event counts its own.
    """


class Model(ContractModel):
    """
    A deployed model.
    """

    id: StrictStr
    """
    The name to use as `model`.
    """

    object: Literal["model"]
    """
    Always model.
    """

    created: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    When the server started, in seconds since 1970.
    """

    owned_by: StrictStr
    """
    Always MindIE Server, which clients of MindIE may look for.
    """

    parent: StrictStr | None = None
    """
    Of a LoRA adapter, the model that it changes; null for the deployed model itself.
    """

    root: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Name of the folder that the weights come from, where there is one.
    """

    max_model_len: Annotated[
        Annotated[int, Integer(ge=1, le=2147483647)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Most tokens of prompt and answer together (maxSeqLen); absent while the model loads.
    """


class ModelList(ContractModel):
    """
    The deployed models.
    """

    object: Literal["list"]
    """
    Always list.
    """

    data: Annotated[list[Model], Field(fail_fast=True)]
    """
    One entry for each name that a request may use.
    """


class LoadLoraAdapterRequest(RequestModel):
    """
    Which adapter to load.
    """

    lora_name: Annotated[str, Field(strict=True, min_length=1, max_length=256, pattern="^[A-Za-z0-9_.-]+$")]
    """
    The adapter's name - letters, digits, dots, underscores and hyphens.
    """

    lora_path: Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
    """
    The adapter's folder, as PEFT saves it (adapter_config.json and adapter_model.safetensors); absolute, or relative to the deployment's folder for adapters. One outside of that is refused.
    """

    master_model: Annotated[str, Field(strict=True, min_length=1, max_length=256)] | None = None
    """
    The model that the adapter changes; when it is given, it must be the deployed one.
    """


class UnloadLoraAdapterRequest(RequestModel):
    """
    Which adapter to unload.
    """

    lora_name: Annotated[str, Field(strict=True, min_length=1, max_length=256, pattern="^[A-Za-z0-9_.-]+$")]
    """
    The adapter's name - letters, digits, dots, underscores and hyphens.
    """


class LoraAdapterStatus(ContractModel):
    """
    What has been done.
    """

    status: StrictStr
    """
    A sentence.
    """


class Health(ContractModel):
    """
    The engine's state.
    """

    status: Literal["ready", "loading", "draining", "down", "busy", "abnormal"]
    """
    ready when requests are served; busy and abnormal only where npuUsageThreshold is above 0.
    """

    message: Annotated[StrictStr | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Why the engine is down, or what the probe of one token found.
    """


class HealthMessage(ContractModel):
    """
    A state in one sentence, in MindIE's words.
    """

    message: StrictStr
    """
    What the state is.
    """


class TimedHealth(ContractModel):
    """
    A token came in time.
    """

    status: Literal["healthy"]
    """
    Always healthy; a failure is another status.
    """


class Stopped(ContractModel):
    """
    The end of a drain.
    """

    message: StrictStr
    """
    What ended, and how.
    """


class TokenizerRequest(RequestModel):
    """
    A text to count.
    """

    inputs: Annotated[str, Field(strict=True, min_length=1, max_length=4194304)]
    """
    The text.
    """

    do_decode: StrictBool | None = None
    """
    Whether the answer shows the tokens as text.
    """


class TokenizerAnswer(ContractModel):
    """
    The tokens of a text.
    """

    token_number: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    How many tokens it has.
    """

    tokens: Annotated[list[StrictStr], Field(fail_fast=True)]
    """
    The tokens as text, special ones included; a character that several tokens make stands in one entry, so there may be fewer than token_number. Empty where do_decode is false.
    """


class StopInferenceRequest(RequestModel):
    """
    Which request to end.
    """

    id: Annotated[str, Field(strict=True, min_length=1, max_length=256)]
    """
    The id of its answer (its req-id, or the endpoint_common_N that it was given), or its RequestUUID.
    """


class StoppedInference(ContractModel):
    """
    Which request has ended.
    """

    id: StrictStr
    """
    The id that was asked for.
    """


class ServerExtensions(ContractModel):
    """
    Sizes under MindIE's names.
    """

    max_iter_times: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens that an answer may have (maxIterTimes).
    """

    prefill_policy_type: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - first come, first served.
    """

    decode_policy_type: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - first come, first served.
    """

    max_prefill_batch_size: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Prompts in one step at most (maxPrefillBatchSize).
    """

    max_prefill_tokens: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of prompts in one step at most (maxPrefillTokens).
    """


class Server(ContractModel):
    """
    The server, in the form of Triton.
    """

    name: Literal["MindIE Server"]
    """
    Always MindIE Server, which clients of MindIE may look for.
    """

    version: StrictStr
    """
    Of this program.
    """

    extensions: ServerExtensions
    """
    Sizes under MindIE's names.
    """


class Tensor(ContractModel):
    """
    One input or output.
    """

    name: StrictStr
    """
    input0 or output0.
    """

    shape: Annotated[list[Annotated[int, Integer(ge=-1, le=-1)]], Field(fail_fast=True)]
    """
    Always one dimension of any length.
    """

    datatype: Literal["UINT32"]
    """
    Always UINT32.
    """


class ModelMetadata(ContractModel):
    """
    A model, in the form of Triton.
    """

    name: StrictStr
    """
    The name that was asked for.
    """

    platform: Literal["MindIE Server"]
    """
    Always MindIE Server.
    """

    inputs: Annotated[list[Tensor], Field(fail_fast=True)]
    """
    Token ids go in.
    """

    outputs: Annotated[list[Tensor], Field(fail_fast=True)]
    """
    Token ids come out.
    """


class ModelConfig(ContractModel):
    """
    How a model is deployed.
    """

    model_name: StrictStr
    """
    The name that was asked for.
    """

    input_datatype: Literal["UINT32"]
    """
    Of token ids; always UINT32.
    """

    output_datatype: Literal["UINT32"]
    """
    Of token ids; always UINT32.
    """

    max_seq_len: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of prompt and answer together at most, as it is in force (maxSeqLen, at most what the model can).
    """

    npu_mem_size: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)]
        | Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1, le=1048576)],
        OneOf("integer", "number"),
    ]
    """
    GB for keys and values; -1 where nobody set a size and a share of what is free is taken.
    """

    cpu_mem_size: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - there is no second memory for keys and values.
    """

    world_size: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Always 1 - one process computes an instance.
    """

    model_weight_path: StrictStr
    """
    Name of the folder that the weights, or the adapter, come from; empty where there is none.
    """

    model_instance_type: Literal["Standard", "StandardMock"]
    """
    StandardMock where the text is made up.
    """


class SlotCount(ContractModel):
    """
    The room of an engine.
    """

    total_slots: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Sequences that may run at the same time, of all instances (maxBatchSize).
    """

    free_slots: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Places that no request has.
    """

    available_tokens_length: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    Tokens that the free pages hold. Where an engine keeps no pages, a free place holds maxSeqLen.
    """


class InfoModel(ContractModel):
    """
    The deployed model.
    """

    model_device_type: StrictStr
    """
    What computes it, such as cpu; none for the mock.
    """

    model_dtype: StrictStr
    """
    The type of its weights, such as bfloat16; none for the mock.
    """

    model_id: StrictStr
    """
    The deployed name.
    """

    model_pipeline_tag: Literal["text-generation"]
    """
    Always text-generation.
    """

    model_sha: StrictStr | None
    """
    Always null.
    """

    max_total_tokens: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of prompt and answer together at most, as it is in force (maxSeqLen, at most what the model can).
    """


class Info(ContractModel):
    """
    The server, in the form of text-generation-inference.
    """

    docker_label: StrictStr | None
    """
    Always null.
    """

    max_batch_total_tokens: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of prompts in one step at most (maxPrefillTokens).
    """

    max_best_of: Annotated[int, Integer(ge=1, le=128)]
    """
    Choices of one request at most (maxN; 128 where that is more). MindIE always says 1.
    """

    max_concurrent_requests: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Sequences that run at the same time (maxBatchSize), of all instances.
    """

    max_stop_sequences: Annotated[int, Integer(ge=0, le=2147483647)] | None
    """
    Always null - their number has no limit of its own.
    """

    max_waiting_tokens: Annotated[int, Integer(ge=0, le=2147483647)] | None
    """
    Always null.
    """

    sha: StrictStr | None
    """
    Always null.
    """

    validation_workers: Annotated[int, Integer(ge=0, le=2147483647)] | None
    """
    Always null.
    """

    version: StrictStr
    """
    Of this program.
    """

    waiting_served_ratio: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=2147483647)] | None
    """
    Always null.
    """

    models: Annotated[list[InfoModel], Field(fail_fast=True)]
    """
    The deployed model.
    """

    max_input_length: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Tokens of a prompt at most, as it is in force (maxInputTokenLen and the other limits).
    """


class StaticConfig(ContractModel):
    """
    Sizes under MindIE's names, as they are in force.
    """

    modelName: StrictStr
    """
    The deployed name.
    """

    maxSeqLen: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of prompt and answer together at most.
    """

    npuMemSize: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)]
        | Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1, le=1048576)],
        OneOf("integer", "number"),
    ]
    """
    GB for keys and values; -1 where nobody set a size and a share of what is free is taken.
    """

    cpuMemSize: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - there is no second memory for keys and values.
    """

    worldSize: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Always 1 - one process computes an instance.
    """

    maxOutputLen: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens that an answer may have (maxIterTimes).
    """

    cacheBlockSize: Annotated[int, Integer(ge=1, le=2147483647)]
    """
    Tokens of a page of keys and values.
    """


class StatusService(ContractModel):
    """
    The part that this server has.
    """

    roleStatus: Literal["RoleReady"]
    """
    Always RoleReady - while requests are not served, the answer is a 503.
    """

    currentRole: Literal["none"]
    """
    Always none - prefill and decode are not divided among servers.
    """


class StatusResource(ContractModel):
    """
    Requests, places and pages, of all instances.
    """

    availSlotsNum: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Places in the batch that no request has.
    """

    availBlockNum: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    Pages that no sequence owns, kept ones included. Where an engine keeps no pages, a free place counts as those of maxSeqLen.
    """

    waitingRequestNum: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Requests that wait for a place or for memory.
    """

    runningRequestNum: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Requests that the engine has begun.
    """

    swappedRequestNum: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - what gives up its memory is computed again.
    """

    freeNpuBlockNums: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    As availBlockNum.
    """

    freeCpuBlockNums: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - there is no second memory for keys and values.
    """

    totalNpuBlockNums: Annotated[int, Integer(ge=0, le=9007199254740991)]
    """
    All pages.
    """

    totalCpuBlockNums: Annotated[int, Integer(ge=0, le=2147483647)]
    """
    Always 0 - there is no second memory for keys and values.
    """


class StatusLinks(ContractModel):
    """
    Other servers that this one works with.
    """

    peers: Annotated[list[StrictStr], Field(fail_fast=True, max_length=0)]
    """
    Always empty.
    """


class Status(ContractModel):
    """
    The state of the service.
    """

    service: StatusService
    """
    The part that this server has.
    """

    resource: StatusResource
    """
    Requests, places and pages, of all instances.
    """

    linkStatus: StatusLinks
    """
    Other servers that this one works with.
    """


class Error(ContractModel):
    """
    An error as MindIE's clients expect it, with more to act on.
    """

    error: Annotated[str, Field(strict=True, min_length=1)]
    """
    A sentence that says which member, what was given, and what is allowed.
    """

    error_type: Literal[
        "Input Validation Error",
        "Generation Error",
        "NotFoundError",
        "AuthenticationError",
        "Service Unavailable",
        "Incomplete Generation",
    ]
    """
    The family of the error.
    """

    param: StrictStr | None
    """
    The path of the member at fault, such as messages[0].content[1].text; null when no member is.
    """

    code: StrictStr
    """
    The broken rule's id, or json_invalid, missing, wrong_type, out_of_range, too_long, unknown_field, unknown_model, unsupported, unsupported_media, media_forbidden, media_unreachable, media_invalid, media_too_large, template_error, too_deep, body_too_large, media_type, not_found, method_not_allowed, prompt_too_long, invalid_token_id, queue_full, loading, stopping, engine_down, timeout, duplicate_id, adapter, internal, missing_api_key, invalid_api_key, request_timeout, malformed_http, https_needed.
    """


class OpenAIErrorBody(ContractModel):
    """
    What went wrong.
    """

    message: Annotated[str, Field(strict=True, min_length=1)]
    """
    A sentence that says which member, what was given, and what is allowed.
    """

    type: Literal[
        "Input Validation Error",
        "Generation Error",
        "NotFoundError",
        "AuthenticationError",
        "Service Unavailable",
        "Incomplete Generation",
    ]
    """
    The family of the error.
    """

    param: StrictStr | None
    """
    The path of the member at fault, such as messages[0].content[1].text; null when no member is.
    """

    code: StrictStr
    """
    The broken rule's id, or json_invalid, missing, wrong_type, out_of_range, too_long, unknown_field, unknown_model, unsupported, unsupported_media, media_forbidden, media_unreachable, media_invalid, media_too_large, template_error, too_deep, body_too_large, media_type, not_found, method_not_allowed, prompt_too_long, invalid_token_id, queue_full, loading, stopping, engine_down, timeout, duplicate_id, adapter, internal, missing_api_key, invalid_api_key, request_timeout, malformed_http, https_needed.
    """


class OpenAIError(ContractModel):
    """
    An error in OpenAI's shape.
    """

    error: OpenAIErrorBody
    """
    What went wrong.
    """


class StreamError(ContractModel):
    """
    A failure after the stream began; the end of the stream follows.
    """

    error: OpenAIErrorBody
    """
    What went wrong.
    """

    error_type: Literal[
        "Input Validation Error",
        "Generation Error",
        "NotFoundError",
        "AuthenticationError",
        "Service Unavailable",
        "Incomplete Generation",
    ]
    """
    The family of the error.
    """
