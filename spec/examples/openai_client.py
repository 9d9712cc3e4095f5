from openai import APIStatusError, OpenAI

client = OpenAI(base_url="http://127.0.0.1:1025/v1", api_key="unused")
model = client.models.list().data[0].id
question = [{"role": "user", "content": "Name a colour."}]

answer = client.chat.completions.create(model=model, messages=question, max_tokens=20)
print(answer.choices[0].message.content)

# What OpenAI's API does not have goes into extra_body.
stream = client.chat.completions.create(
    model=model, messages=question, max_tokens=20, stream=True, extra_body={"top_k": 40, "repetition_penalty": 1.1}
)
for event in stream:
    print(event.choices[0].delta.content or "", end="", flush=True)
print()

try:
    client.completions.create(model=model, prompt="Hi", n=4, best_of=2, temperature=1)
except APIStatusError as error:
    print(error.status_code, error.body)
