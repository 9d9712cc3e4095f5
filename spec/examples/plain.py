import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

URL = "http://127.0.0.1:1025/v1/chat/completions"


def post(body):
    return urlopen(Request(URL, json.dumps(body).encode(), {"Content-Type": "application/json"}))


body = {"model": "SmolLM2-135M-Instruct", "messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 20}

with post(body) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])

with post({**body, "stream": True}) as events:
    for line in events:
        data = line.decode().removeprefix("data: ").strip()
        if data == "[DONE]":
            print()
        elif data:
            event = json.loads(data)
            if "error" in event:
                raise SystemExit(event["error"]["message"])
            for choice in event["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)

try:
    post({**body, "temperature": -1})
except HTTPError as refusal:
    print(refusal.code, json.load(refusal)["error"])
