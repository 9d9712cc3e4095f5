"""Images, video and audio of requests: from what a client names to what the engine's encoders take."""
