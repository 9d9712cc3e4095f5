curl http://127.0.0.1:1025/v1/chat/completions -H 'Content-Type: application/json' -d '{
  "model": "SmolLM2-135M-Instruct",
  "messages": [{"role": "user", "content": "What is the capital of France?"}],
  "temperature": 0,
  "max_tokens": 20
}'
