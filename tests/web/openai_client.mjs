// The npm client `openai` through its paces: node openai_client.mjs ADDRESS MODEL. Prints what it saw, as JSON.

import OpenAI from "openai";

const [, , address, model] = process.argv;
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0, timeout: 30_000 });
const messages = [{ role: "user", content: "who are you" }];
const tools = [
  {
    type: "function",
    function: {
      name: "weather",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];
const chat = { model, messages, max_tokens: 6, temperature: 0, ignore_eos: true };
const seen = {};

/** Headers that make the mock answer so. */
const mock = (wish) => ({ headers: { "X-Mock": wish } });

/** The class, status and contract's code of the error that a call ends in. */
async function errorOf(call) {
  try {
    await call();
  } catch (error) {
    const body = typeof error.error === "object" ? error.error : null;
    return { kind: error.constructor.name, status: error.status ?? null, code: error.code ?? body?.code ?? null };
  }
  return null;
}

const whole = await client.chat.completions.create(chat);
seen.whole = {
  object: whole.object,
  role: whole.choices[0].message.role,
  finish: whole.choices[0].finish_reason,
  tokens: whole.usage.completion_tokens,
};

const events = [];
for await (const event of await client.chat.completions.create({ ...chat, stream: true })) events.push(event);
seen.stream = {
  same: events.map((event) => event.choices[0].delta.content ?? "").join("") === whole.choices[0].message.content,
  opening: [events[0].choices[0].delta.role, events[0].choices[0].delta.content],
  finishes: events.map((event) => event.choices[0].finish_reason).filter((reason) => reason !== null),
  tokens: events.at(-1).usage.completion_tokens,
};

const two = await client.chat.completions.create({ ...chat, temperature: 0.8, n: 2, seed: 7 });
seen.choices = two.choices.map((choice) => choice.index);

const short = mock("finish=stop, tokens=4");
const ending = { ...chat, ignore_eos: false };
const content = await client.chat.completions.stream(ending, short).finalContent();
const same = await client.chat.completions.create(ending, short);
seen.helper = content !== "" && content === same.choices[0].message.content;

const shown = await client.chat.completions.create({ ...chat, logprobs: true, top_logprobs: 3 });
const tokens = shown.choices[0].logprobs.content;
seen.logprobs = {
  tokens: tokens.length,
  candidates: [...new Set(tokens.map((token) => token.top_logprobs.length))],
  greedy: tokens.every((token) => token.token === token.top_logprobs[0].token),
};

const text = { model, prompt: "who are you", max_tokens: 5, temperature: 0, ignore_eos: true };
const continued = await client.completions.create({ ...text, logprobs: 2 });
const pieces = [];
for await (const event of await client.completions.create({ ...text, stream: true })) pieces.push(event);
seen.completions = {
  same: pieces.map((event) => event.choices[0].text).join("") === continued.choices[0].text,
  offset: continued.choices[0].logprobs.text_offset[0],
  tokens: continued.choices[0].logprobs.tokens.length,
};

const asked = { model, messages, tools, max_tokens: 200 };
const call = await client.chat.completions.create(asked, mock("finish=tool_calls"));
const streamed = await client.chat.completions.stream(asked, mock("finish=tool_calls")).finalChatCompletion();
seen.tools = [call, streamed].map(({ choices: [choice] }) => ({
  finish: choice.finish_reason,
  name: choice.message.tool_calls[0].function.name,
  city: typeof JSON.parse(choice.message.tool_calls[0].function.arguments).city,
}));

const format = { type: "json_schema", json_schema: { name: "a", schema: tools[0].function.parameters } };
const held = await client.chat.completions.create({ model, messages, max_tokens: 200, response_format: format });
seen.json = typeof JSON.parse(held.choices[0].message.content).city;

seen.models = [];
for await (const one of client.models.list()) seen.models.push(one.id);

seen.errors = {
  range: await errorOf(() => client.chat.completions.create({ ...chat, temperature: -1 })),
  rule: await errorOf(() => client.chat.completions.create({ ...chat, stream: true, logprobs: false, top_logprobs: 2 })),
  model: await errorOf(() => client.models.retrieve("someone-else")),
  busy: await errorOf(() => client.chat.completions.create(chat, mock("status=429"))),
  loading: await errorOf(() => client.chat.completions.create(chat, mock("status=503"))),
  engine: await errorOf(() => client.chat.completions.create(chat, mock("error-after=2"))),
};

/** How many events came before a stream broke, and in what error. */
async function broken(wish) {
  let count = 0;
  const error = await errorOf(async () => {
    for await (const _ of await client.chat.completions.create({ ...chat, stream: true }, mock(wish))) count += 1;
  });
  return { some: count > 0, whole: count >= events.length, failed: error !== null };
}
seen.failed = await broken("error-after=3");
seen.cut = await broken("disconnect-after=3");

const long = await client.chat.completions.create(
  { ...chat, max_tokens: 200, stream: true },
  mock("slow-token=20ms"),
);
let before = 0;
for await (const _ of long) {
  before += 1;
  if (before === 3) break;
}
long.controller.abort();
const after = await client.chat.completions.create(chat);
seen.abort = { before, after: after.choices[0].finish_reason };

console.log(JSON.stringify(seen));
