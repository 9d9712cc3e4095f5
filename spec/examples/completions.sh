curl http://127.0.0.1:1025/v1/completions -H 'Content-Type: application/json' -d '{
  "model": "SmolLM2-135M-Instruct",
  "prompt": "The capital of France is",
  "temperature": 0,
  "max_tokens": 8
}'
