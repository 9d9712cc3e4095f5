"""Images, video and audio in prompts: what processors make of them, and the encoders that turn it into embeddings."""
