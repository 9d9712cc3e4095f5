curl --no-buffer http://127.0.0.1:1025/v1/chat/completions -H 'Content-Type: application/json' -d '{
  "model": "SmolLM2-135M-Instruct",
  "messages": [{"role": "user", "content": "Name a colour."}],
  "stream": true,
  "seed": 18446744073709551615,
  "max_tokens": 20
}'
